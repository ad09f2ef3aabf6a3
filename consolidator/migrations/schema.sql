-- The log and the memory of consolidator: every table, in the order in which they are read.
--
-- An agent's sessions are rows of `session`; what happens in them is appended to `event`, numbered without gaps by
-- (session_id, seq) and kept in one partition a day. Of an event only `consolidated_at` is ever set, once. What the
-- runtime streams goes into `generation_chunk` and `delivery`, large values into `blob`.
--
-- Each night is a `run`, whose units are `claim`s. It turns a session's calls into a `digest` and `error_record`s, and
-- its words into `candidate`s; these are all that is left of it once `pruning` has removed its events. Mergers publish
-- from them: digests -> `procedure`, error_record -> `solution`, candidate -> `fact`. Search reads `posting`s and
-- `embedding`s of `episode`s (turns) and `indexed_fact`s.
--
-- A comment stands on the line of its column, or above it. New databases are made from this file and `functions.sql`;
-- `consolidator db verify` compares a database with them. A change here needs a migration in `versions/`.

-- The log -------------------------------------------------------------------------------------------------------------

-- What columns of the two busiest tables may hold: PostgreSQL reads and plans a table's checks anew in each statement that
-- writes a row, but a domain's once in a connection.
create domain event_kind as text
    constraint event_kind check (value in ('SessionStart', 'SessionEnd', 'UserMessage', 'AssistantResponse',
        'ToolCall', 'ToolResult', 'ThinkingStart', 'PolicyDecision', 'TaskStart', 'TaskEnd', 'Error', 'SubAgentSpawn',
        'SubAgentComplete', 'ApprovalRequested', 'ApprovalGranted', 'ApprovalDenied'));
create domain session_kind as text
    constraint session_kind check (value in ('root', 'fork', 'resume', 'branch', 'sub-agent'));
create domain session_status as text
    constraint session_status check (value in ('open', 'ended'));
create domain max_cost as numeric
    constraint max_cost check (value >= 0);

create table session (
    id text primary key,
    origin text,  -- "format:name" if it was imported
    key text,  -- agent:channel:peer
    current boolean not null default false,  -- whether it is the one session that its key names now
    conversation_id text,
    agent text not null,
    memory text not null,  -- whose memory it teaches: its agent's, or the one that all agents of the owner share
    channel text,
    peer text,
    project text,
    parent_id text,  -- may name a session whose log was never seen
    parent_seq bigint,  -- the event of the parent at which it began
    root_id text not null,  -- the root of its lineage; support counts lineages
    kind session_kind not null default 'root',  -- root | fork | resume | branch | sub-agent
    simulated boolean not null default false,  -- dry runs and simulations are never evidence
    model text,  -- or `auto`; none is what the settings say
    answered_by text,  -- the model that answered last
    details jsonb not null default '{}',  -- whatever else a foreign log said about the session
    state jsonb not null default '{}',  -- the sum of the tools' state changes
    status session_status not null default 'open',  -- open | ended
    error text,  -- in which its last turn ended
    head bigint not null default 0,  -- seq of the last event
    due boolean not null default false,  -- whether head > consolidated_to
    -- the watermark: every event up to here was learned from or dead-lettered
    consolidated_to bigint not null default 0,
    -- every event up to here was read by a model, or was pruned before one could
    extracted_to bigint not null default 0,
    pruned_to bigint not null default 0,  -- every own event up to here is gone, or there never was one
    lease_epoch bigint not null default 0,  -- grows with each harness that acquires the session
    lease_owner text,
    lease_until timestamptz,
    -- nothing up to here is open: no call, generation, approval or unanswered message
    settled_to bigint not null default 0,
    delivered_to bigint not null default 0,  -- every message up to here reached the session's channel
    pending boolean not null default false,  -- whether a wake must look at something after `settled_to`
    hidden boolean not null default false,  -- a person deleted it: ended and not listed; only an erasure removes it
    attention jsonb not null default '{}',  -- call_id -> what a person must decide; its kind is approval | uncertain
    config jsonb not null default '{}',  -- system prompt, strategy, budgets, tools, the trigger's policy
    max_cost max_cost,  -- USD
    reserved numeric not null default 0,  -- USD set aside for calls that are not settled
    turns integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cached_tokens bigint not null default 0,
    cost numeric not null default 0,  -- USD of settled calls
    compactions integer not null default 0,
    created_at timestamptz not null,
    last_event_at timestamptz not null,  -- ingest time of the last event
    last_occurred_at timestamptz not null,  -- when the last thing happened
    expires_at timestamptz,  -- retention ends it after this; a person's message moves it on
    unchained_to bigint not null default 0,  -- events up to here were written before events were hash-chained
    chain_hash bytea,  -- of the last event; null before the first one
    pruned_hash bytea,  -- of the event at `pruned_to`, or what a child's chain begins with
    recorded_by text,  -- the client or import that writes it, where the runtime does not: it is never driven
    -- events after it are learned from by rules, and not stamped until the model has read them
    awaits_model boolean not null default false,
    -- its own events come after it: the point of the parent, whose numbering a child continues
    base_seq bigint not null default 0,
    trigger_type text,  -- what started it: chat | message | email | cron | api, or another word
    trigger_id text,  -- of that: the message, the mail, the job
    labels jsonb not null default '{}',  -- names by which its sessions are found: space_id, mailbox_id, anything
    context_window integer,  -- of the model, in tokens, where it is known or was named
    completed_at timestamptz,  -- when it ended
    followed_until timestamptz,  -- until then, by the database's clock, writers notify those who follow the session
    wake_failures integer not null default 0,  -- wakes in a row that did not come to an end
    wake_after timestamptz,  -- a driver does not wake it before
    open_task text,  -- id of the task that is open
    past_id text,  -- whose log holds what came before its own events, where that is not its parent's
    past_seq bigint,  -- the event of that log after which its own come
    -- of that, in UTC: what lists of the latest sessions are read by
    last_day date not null generated always as ((last_occurred_at at time zone 'UTC')::date) stored,
    constraint session_base check (0 <= base_seq and base_seq <= pruned_to),
    constraint session_due check (due = (head > consolidated_to)),
    constraint session_marks check (pruned_to <= consolidated_to and consolidated_to <= head),
    constraint session_settled check (settled_to <= head and delivered_to <= head)
) with (fillfactor = 60);
comment on table session is 'One conversation of one agent: its head, watermarks, lease, totals and settings.';
create index session_attention on session (id) where attention <> '{}';
create index session_awaits_model on session (id) where awaits_model;
create index session_conversation on session (conversation_id) where conversation_id is not null;
create index session_created on session (created_at, id);
create index session_due on session (agent, id) where due;
create index session_expires on session (expires_at) where expires_at is not null and status = 'open';
create unique index session_key_current on session (key) where current and recorded_by is null;
create unique index session_key_recorded on session (recorded_by, key) where current and recorded_by is not null;
create index session_labels on session using gin (labels jsonb_path_ops) where labels <> '{}';
create index session_last_day on session (last_day desc);
create index session_late on session (agent, id) where greatest(extracted_to, pruned_to) < consolidated_to;
create unique index session_origin on session (origin);
create index session_parent on session (parent_id) where parent_id is not null;
create index session_past on session (past_id) where past_id is not null;
create index session_peer on session (peer) where peer is not null;
create index session_pending on session (id) where pending;
create index session_project on session (project, agent, peer) where project is not null;
create index session_root on session (root_id);
create index session_runs on session (key, created_at) where key is not null;
create index session_trigger on session (trigger_type, trigger_id) where trigger_type is not null;
create index session_unfinished on session (parent_id) where config ? 'unfinished';

create table checkout (
    directory text primary key,
    repository text not null,  -- "host/owner/name" of the remote that it came from
    project text not null  -- what memory calls all checkouts of the repository: the first of them
);
comment on table checkout is 'The directories of the owner that are known to be checkouts of a repository.';
create index checkout_project on checkout (project);
create index checkout_repository on checkout (repository);

create sequence event_id_seq;
create table event (
    id bigint not null default nextval('event_id_seq'),
    session_id text not null,
    seq bigint not null,  -- dense in its session, from 1
    event_type event_kind not null,
    data jsonb not null default '{}',  -- the payload; `data_ref` in it refers to the values that are in blobs
    created_at timestamptz not null,  -- when it was ingested
    consolidated_at timestamptz,  -- when it was learned from
    task_id text,
    tool_name text,
    hash bytea,  -- see `store.log.hash_chain`; null in events from before it
    principal text,  -- see `models.principal`; null in events from before it
    primary key (session_id, seq, created_at),
    constraint event_seq check (seq > 0)
) partition by range (created_at);
alter sequence event_id_seq owned by event.id;
comment on table event is 'The append-only log, by day of created_at; only consolidated_at is ever set, once.';
create index event_state_patch on event (session_id, seq)
    where (data ? 'state_patch') or ((data -> 'data_ref') ?| array['state_patch', '*']);
create index event_mark on event (session_id, seq)  -- one for two readers: each append and each plan opens all of them
    where event_type in ('TaskStart', 'TaskEnd')
       or event_type = 'PolicyDecision' and data ->> 'decision' in ('compaction', 'scratchpad_set');

create table idempotency (
    session_id text not null,
    key text not null,
    first_seq bigint not null default 0,
    last_seq bigint not null default 0,
    created_at timestamptz not null,
    primary key (session_id, key)
);
comment on table idempotency is 'The seqs that a retriable append was answered with the first time.';

create table blob (
    sha256 bytea primary key,
    media_type text not null,
    size bigint not null default 0,
    body bytea not null default '',
    touched_at timestamptz not null  -- when a writer last named it; collection waits for a grace period after this
);
comment on table blob is 'Payloads over 16 KiB, content-addressed.';
create index blob_touched on blob (touched_at);

create table blob_ref (
    session_id text not null,
    seq bigint not null,
    sha256 bytea not null,
    primary key (session_id, seq, sha256),
    constraint blob_ref_sha256_fkey foreign key (sha256) references blob(sha256)
);
comment on table blob_ref is 'Which event refers to which blob.';
create index blob_ref_blob on blob_ref (sha256);

create sequence output_id_seq;  -- of chunks and deliveries together, in the order in which they came in
create table generation_chunk (
    id bigint not null default nextval('output_id_seq'),
    session_id text not null,
    message_id text not null,
    seq bigint not null,
    started_seq bigint not null default 0,
    delta text not null,
    created_at timestamptz not null,
    after_seq bigint,  -- the last event before it; null in older logs
    hash bytea,  -- of the row, by `hash_output`
    primary key (session_id, message_id, seq, created_at),
    constraint generation_chunk_seq check (seq > 0)
) partition by range (created_at);
comment on table generation_chunk is 'The committed pieces of generations, by day of created_at, append-only.';
create index generation_chunk_id on generation_chunk using brin (id);
create index generation_chunk_started on generation_chunk (session_id, started_seq);

create table delivery (
    id bigint not null default nextval('output_id_seq'),
    session_id text not null,
    message_id text not null,
    channel text not null,
    upto_seq bigint not null,
    started_seq bigint not null default 0,
    sent_at timestamptz not null,
    hash bytea,  -- of the row, by `hash_output`
    primary key (session_id, message_id, channel, upto_seq),
    constraint delivery_upto check (upto_seq >= 0)
);
comment on table delivery is 'How far a message reached a channel.';
create index delivery_id on delivery using brin (id);
create index delivery_started on delivery (session_id, started_seq);

-- What a session is made from -----------------------------------------------------------------------------------------

create table agent (
    name text primary key,
    version integer not null default 0,  -- of these defaults, from 1
    model text,  -- or `auto`
    system_prompt text,  -- as it is; an agent has either this or a template
    template text,  -- of the system prompt, with $name for each parameter
    template_version integer not null default 0,  -- grows with each change of the template; 0 where there never was one
    parameters jsonb not null default '{}',  -- defaults of the template's parameters
    tools text[],  -- the only tools that its sessions may use
    max_cost numeric,  -- USD that one session may cost
    max_steps integer,  -- answers of the model in one turn
    answer_tokens integer,
    strategy text,  -- of the context
    budget integer,  -- tokens of the context
    last integer,  -- events of a context by the strategy `window`
    compaction_threshold double precision,  -- share of the budget above which a session is compacted
    session_ttl_seconds integer,  -- how long a session is kept open after a person's last message
    checkpoint_ttl_seconds integer,
    retention_days integer,  -- how long events are kept that were learned from
    tier text,  -- the agent whose defaults stand where this one has none: those of a group
    created_at timestamptz not null,
    updated_at timestamptz not null
);
comment on table agent is 'The defaults of an agent''s sessions, as they stand.';

create table agent_version (
    agent text not null,
    version integer not null,
    -- the columns of AgentRow that a person sets, and `template_version`; {} if deleted
    definition jsonb not null default '{}',
    created_at timestamptz not null,
    changed_by text not null,  -- the credential; `owner` for the machine's own
    primary key (agent, version)
);
comment on table agent_version is 'Every version of an agent''s defaults: rows are added, never changed.';

create table seed (
    session_id text not null,
    ordinal integer not null,  -- from 0
    role text not null,
    content text not null,
    is_new boolean not null default false,
    occurred_at timestamptz,
    details jsonb not null default '{}',
    primary key (session_id, ordinal),
    constraint seed_session_id_fkey foreign key (session_id) references session(id) on delete cascade
);
comment on table seed is 'What a session''s model saw at the start, in order; the nights do not read it.';

create table session_lineage (
    session_id text not null,
    position integer not null,  -- of the range: 0 is the farthest ancestor
    ancestor_id text not null,
    after_seq bigint not null default 0,
    upto_seq bigint not null default 0,
    shift bigint not null default 0,
    primary key (session_id, position),
    constraint session_lineage_session_id_fkey foreign key (session_id) references session(id) on delete cascade
);
comment on table session_lineage is 'What a session reads of its ancestors'' logs, the farthest first; written once.';
create index session_lineage_ancestor on session_lineage (ancestor_id);

create table checkpoint (
    id text primary key,
    session_id text not null,
    seq bigint not null default 0,  -- the last event before the point; always a safe point
    label text,
    metadata jsonb not null default '{}',  -- the caller's
    -- what happened since the checkpoint before: events, messages, tools, tokens, cost
    delta jsonb not null default '{}',
    fold jsonb not null default '{}',  -- what the log cannot give: totals, and of a pruned past state and view
    created_at timestamptz not null,
    expires_at timestamptz,  -- when it stops to keep events from retention, and is deleted; None: never
    constraint checkpoint_session_id_fkey foreign key (session_id) references session(id) on delete cascade
);
comment on table checkpoint is 'Labelled points of sessions, to restore from until they expire: pointers, not copies.';
create index checkpoint_expires on checkpoint (expires_at);
create index checkpoint_session on checkpoint (session_id, created_at);

create table session_view (
    session_id text primary key,
    upto bigint not null default 0,  -- every event up to here is in the summary
    summary jsonb not null default '{}',  -- the fold of tools, errors, approvals, sub-agents
    compaction_seq bigint not null default 0,  -- of the latest compaction, 0 where there is none
    compaction jsonb not null default '{}',  -- what it says
    scratchpad_seq bigint not null default 0,
    scratchpad text,  -- the agent's own notes, as they stand
    constraint session_view_session_id_fkey foreign key (session_id) references session(id) on delete cascade
);
comment on table session_view is 'What a context needs of a session''s past: summary, latest compaction, scratchpad.';

create table spend (
    call_id text primary key,
    session_id text,  -- none: the session was erased
    message_id text,
    purpose text not null,  -- step | compaction | tool
    model text not null,
    day date not null,  -- in UTC
    reserved numeric not null default 0,  -- USD; 0 if no price is known
    cost numeric,  -- USD; none before it is settled, and after it if no price is known
    input_tokens bigint not null default 0,  -- estimated until it is settled; the cached ones among them
    output_tokens bigint not null default 0,  -- the most that it may be, until it is settled
    cached_tokens bigint not null default 0,
    tier text,  -- own | cheap; none if no price is known
    strategy text,  -- of the context
    turn integer not null default 0,  -- of the session, from 0
    reserved_at timestamptz not null,
    settled_at timestamptz,
    constraint spend_purpose check (purpose in ('step', 'compaction', 'tool')),
    constraint spend_settled check (cost is null or settled_at is not null)
);
comment on table spend is 'Calls of models by sessions: reserved before, settled after.';
create index spend_day on spend (day);
create index spend_open on spend (session_id) where settled_at is null;
create index spend_session on spend (session_id);

-- Who may do what, and what can be proved -----------------------------------------------------------------------------

create table credential (
    name text primary key,
    token_hash bytea not null,  -- SHA-256
    scopes text[] not null default '{}',  -- of read | record | write | admin
    agent text,  -- null: any
    project text,
    peer text,
    created_at timestamptz not null,
    revoked_at timestamptz,
    expires_at timestamptz  -- null: never
);
comment on table credential is 'Who else may ask memory, record or speak for people; a token is kept as its SHA-256.';
create unique index credential_token on credential (token_hash);

create table api_request (
    credential text not null,  -- whose key it is
    key text not null,
    request_hash bytea not null,  -- SHA-256 of its method, path and body
    status integer not null default 0,  -- of the answer
    answer text not null,  -- the JSON document
    location text,  -- of what was created
    session_id text,  -- the session that it is about: an erasure removes the answer, too
    created_at timestamptz not null,
    primary key (credential, key)
);
comment on table api_request is 'Answers to requests of the HTTP API that came with a key, kept for a day.';
create index api_request_created on api_request (created_at);
create index api_request_session on api_request (session_id);

create table seal (
    number bigint primary key,  -- 1, 2, 3 ... without gaps
    run_id text,  -- the night that made it
    sealed_at timestamptz not null,
    sessions bigint not null default 0,  -- how many chains it covers
    output_to bigint not null default 0,  -- the last chunk or delivery that this seal or one before it covers
    root bytea not null default ''  -- SHA-256 over the root before it, its chains and its messages
);
comment on table seal is 'What each night sealed: a root over the chains it read, what was sent, and the seal before.';

create table sealed_session (
    session_hash bytea not null,  -- SHA-256 of the session's id: an erasure leaves no name behind
    seq bigint not null,  -- of the last event that was learned from
    hash bytea not null default '',  -- of that event
    seal bigint,  -- the seal that covers it; null until the night ends
    primary key (session_hash, seq)
);
comment on table sealed_session is 'How far a session was learned from, and the hash of its chain there.';
create index sealed_session_seal on sealed_session (seal);

create table sealed_message (
    seal bigint not null,
    session_hash bytea not null,  -- SHA-256 of the session's id
    message_hash bytea not null,  -- SHA-256 of the message's id
    started_seq bigint not null,  -- the event that began the message: retention prunes both together
    hash bytea not null,  -- over its chunks and deliveries since the seal before, by `hash_messages`
    primary key (seal, session_hash, message_hash)
);
comment on table sealed_message is 'What was generated of a message and sent of it between two seals.';

create table pruning (
    id text primary key,
    run_id text,
    cutoff timestamptz not null,  -- events ingested before it were candidates
    log_events bigint not null default 0,  -- in the log when it began
    events bigint not null default 0,  -- marked as pruned
    sessions bigint not null default 0,
    overridden boolean not null default false,  -- whether the owner told it to go past the brakes
    login text not null,  -- the role that asked for it
    begun_at timestamptz not null  -- by the database's clock
);
comment on table pruning is 'What retention pruned, and who asked for it; only the functions that prune write it.';

create table erasure (
    id text primary key,
    session_id text not null,  -- a hash of the foreign name; import will not bring it back
    events bigint not null default 0,
    derived bigint not null default 0,  -- rows that were derived from the session
    reason text not null,
    erased_at timestamptz not null
);
comment on table erasure is 'The record of erased sessions: what went, when and why, never what it said.';
create index erasure_session on erasure (session_id);

-- Imports -------------------------------------------------------------------------------------------------------------

create table imported_file (
    format text not null,
    path text not null,
    size bigint not null default 0,
    mtime_ns bigint not null default 0,
    imported_at timestamptz not null,
    primary key (format, path)
);
comment on table imported_file is 'Files that were imported to their end.';

create table imported_key (
    key uuid primary key,
    session_id text,  -- null for items of an earlier version, and of exports
    seq bigint
);
comment on table imported_key is 'Hashed identities of imported items; they outlive the events.';

-- The nights ----------------------------------------------------------------------------------------------------------

create table run (
    id text primary key,
    job text not null,  -- import | consolidation | retention | backfill | retry | reindex
    scheduled_at timestamptz not null,  -- when it was due; unique for its job
    trigger text not null default 'schedule',  -- schedule | manual | batch | watch | install
    status text not null default 'running',  -- running | done | failed | interrupted
    started_at timestamptz not null,
    finished_at timestamptz,
    heartbeat_at timestamptz not null,  -- renewed while a process works on it
    owner text not null,  -- the process that started it, or resumed it last
    arguments jsonb not null default '{}',
    report jsonb not null default '{}',  -- its result, with the sums over its units
    error text,
    -- times in a row that it died of a bug; a scheduled run is tried again until `max_attempts`
    deaths integer not null default 0,
    constraint run_job_scheduled_at unique (job, scheduled_at),
    constraint run_job check (job in ('import', 'consolidation', 'retention', 'backfill', 'retry', 'reindex')),
    constraint run_status check (status in ('running', 'done', 'failed', 'interrupted'))
);
comment on table run is 'One execution of a job. With claim, the ledger.';

create table claim (
    run_id text not null,
    kind text not null,
    unit text not null,  -- the id of a session, or the name of an agent for `merge` and `fact_index`
    phase integer not null default 0,  -- a phase's units begin when those of the phase before have ended
    status text not null default 'open',  -- open | leased | done | dead
    owner text,  -- the replica that holds its lease
    lease_until timestamptz,  -- after this, another replica may claim it
    attempts integer not null default 0,
    seen bigint not null default 0,  -- learned + nothing + deferred + dead
    learned bigint not null default 0,
    nothing bigint not null default 0,  -- events that held nothing to learn
    deferred bigint not null default 0,  -- events left for another night
    dead bigint not null default 0,  -- events that could not be learned from
    error text,  -- of the last attempt that failed
    note text,  -- what a merge changed; how many messages of a session no rule can read
    primary key (run_id, kind, unit),
    constraint claim_run_id_fkey foreign key (run_id) references run(id) on delete cascade,
    constraint claim_kind check (kind in ('session', 'late_extraction', 'merge', 'draft', 'fact_index',
        'turn_index', 'shared_question')),
    constraint claim_status check (status in ('open', 'leased', 'done', 'dead')),
    constraint the_ledger_balances check (seen = learned + nothing + deferred + dead)
);
comment on table claim is 'A unit of a run: who works on it until when, and what came of it.';
create index claim_open on claim (run_id, unit) where status in ('open', 'leased');

create table dead_letter (
    id text primary key,
    run_id text not null,
    session_id text not null,
    seq bigint not null default 0,
    extractor text not null,  -- what failed on it
    error text not null,
    created_at timestamptz not null,
    settled_at timestamptz,
    settlement text  -- retried | discarded
);
comment on table dead_letter is 'Events that could not be learned from, until somebody settles them.';
create unique index dead_letter_open on dead_letter (session_id, seq) where settled_at is null;
create index dead_letter_session on dead_letter (session_id);

create table model_batch (
    id text primary key,  -- the provider's, once it has given one
    status text not null,  -- submitting, the provider's status, or how it ended: collected | refused | lost | overdue
    submitted_at timestamptz not null,
    due_at timestamptz not null,  -- when its unanswered questions are asked without a batch
    collected_at timestamptz
);
comment on table model_batch is 'Batches of questions that were submitted to a provider.';
create index model_batch_open on model_batch (id) where collected_at is null;

create table model_question (
    key text primary key,  -- a hash of the question
    purpose text not null,
    model text not null,
    body jsonb not null default '{}',  -- the provider's request; {} once it is answered or failed
    run_id text not null,
    session_id text,
    call_id text not null,  -- the call that reserved for it
    batch_id text,
    status text not null default 'queued',  -- queued | submitted | answered | failed
    created_at timestamptz not null,
    constraint question_status check (status in ('queued', 'submitted', 'answered', 'failed'))
);
comment on table model_question is 'Questions that go through a batch.';
create index model_question_batch on model_question (batch_id) where batch_id is not null;
create index model_question_queued on model_question (key) where status = 'queued';
create index model_question_session on model_question (session_id) where session_id is not null;

create table model_answer (
    key text primary key,
    purpose text not null,
    model text not null,
    text text not null,
    run_id text not null,
    created_at timestamptz not null,
    session_id text  -- whose words it quotes; None in rows from before this column
);
comment on table model_answer is 'Answers of models by the hash of their question, so that no retry pays twice.';
create index model_answer_session on model_answer (session_id) where session_id is not null;

create table model_call (
    id text primary key,
    run_id text not null,
    session_id text,
    purpose text not null,
    model text not null,
    key text not null,
    reserved_tokens bigint not null default 0,
    reserved_cost numeric,
    input_tokens bigint not null default 0,
    cached_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost numeric,
    outcome text,
    created_at timestamptz not null,
    settled_at timestamptz
);
comment on table model_call is 'Calls of models by the nights: reserved before, settled after.';
create index model_call_run on model_call (run_id);
create index model_call_session on model_call (session_id) where session_id is not null;

-- Learned from calls: procedures and solutions ------------------------------------------------------------------------

create table digest (
    session_id text primary key,
    agent text not null,
    project text,
    last_at timestamptz not null,  -- when the last event that it holds happened
    calls bigint not null default 0,
    sequence bytea not null default '',  -- int64: hashes of the cleaned symbols, in order
    seqs bytea not null default '',  -- int64: the event with which each of them began
    keys bytea not null default '',  -- int64: hashes of what is counted
    counts bytea not null default '',  -- int64: how often
    terms bytea not null default '',  -- zlib JSON: hash -> text
    quotes bytea not null default '',  -- zlib JSON: what the first call of each element of the sequence was given
    state bytea not null default '',  -- zlib JSON: what the fold of calls needs to go on
    error_state bytea not null default '',  -- zlib JSON: what the fold of errors needs to go on
    summary jsonb not null default '{}',  -- the fold of the session's summary
    version text not null,  -- of what is counted
    peer text not null default '',  -- of its lineage root: whose session it is; "" for the owner of the machine
    trace bytea not null default ''  -- what lessons are learned from: `memory.lessons.trace` reads it
);
comment on table digest is 'All that is kept of a session''s calls once its events are pruned.';
create index digest_latest on digest (agent, last_at desc, session_id desc);
create index digest_latest_of_person on digest (agent, peer, last_at desc, session_id desc);
create index digest_latest_of_project on digest (agent, coalesce(project, ''), last_at desc, session_id desc);
create index digest_latest_of_any_agent on digest (project, peer, last_at desc, session_id desc);

create table merged_agent (
    agent text primary key,
    form text not null
);
comment on table merged_agent is 'By which form an agent''s procedures were published; another publishes all again.';

create table scope (
    agent text not null,
    project text not null,  -- "" if there is none
    version bigint not null default 0,  -- grows with each change of a digest of these sessions
    merged bigint not null default 0,  -- the version whose digests are in the published procedures
    peer text not null default '',  -- whose sessions these are, by their lineage roots; "" for the owner of the machine
    primary key (agent, project, peer)
);
comment on table scope is 'An agent''s memory in one project: whether it has to be merged again.';

create table scope_state (
    agent text not null,
    project text not null,  -- "" is all projects
    audience text not null,
    keys bytea not null default '',  -- int64: hashes of what recurs
    groups bytea not null default '',  -- int64: the group in which each key competes
    texts bytea not null default '',  -- zlib JSON: a list
    -- int64: hashes of the steps of each procedure, also of those that are published for all projects
    selected bytea not null default '',
    primary key (agent, project, audience)
);
comment on table scope_state is 'What the last merge of a scope leaves for the next one: a cache of what digests say.';

create table procedure (
    id text primary key,  -- a hash of scope and steps, so that tomorrow's night updates it
    agent text not null,
    project text,  -- none: it holds for the agent in several projects
    title text not null,
    support bigint not null default 0,  -- distinct sessions that did it; those of one lineage count as one
    rank double precision not null,
    body jsonb not null default '{}',  -- steps, success, evidence
    learned_at timestamptz not null,
    updated_at timestamptz not null,
    retired_at timestamptz,  -- when better ones took its place
    run_id text,  -- the run that wrote it, if the cause is a run
    cause text not null default 'run',  -- run | person | review | erasure
    worth double precision not null default 0,  -- what telling it is worth; 0 where it is listed only on request
    audience text not null default 'all',  -- to whom it may be shown
    compiled jsonb,  -- the tool that a person made of it, with the sessions that it rests on
    constraint procedure_cause check (cause in ('run', 'person', 'review', 'erasure')),
    constraint procedure_run check ((run_id is not null) = (cause = 'run'))
);
comment on table procedure is 'Published procedures.';
create index procedure_compiled_from on procedure using gin ((compiled -> 'sessions'));  -- what an erased session taught
create index procedure_scope on procedure (agent, project);
create index procedure_search on procedure using gin (to_tsvector('simple', title));
create index procedure_worth on procedure (worth desc, id)
    where retired_at is null and worth > 0;

create table withheld_procedure (
    id text primary key,
    agent text not null,
    project text not null,
    audience text not null,
    title text not null,
    support bigint not null default 0,
    rank double precision not null default 0,
    worth double precision not null default 0,
    body jsonb not null default '{}'
);
comment on table withheld_procedure is
    'Procedures of projects that are not published there, as all projects of the agent share them.';
create index withheld_procedure_scope on withheld_procedure (agent, project);

create table tool_profile (
    agent text not null,
    project text not null,  -- "" is the agent as a whole
    tool text not null,
    body jsonb not null default '{}',  -- usual arguments, their sources, usual successors
    audience text not null default 'all',  -- to whom it may be shown
    primary key (agent, project, audience, tool)
);
comment on table tool_profile is 'How an agent uses each tool: usual arguments, their sources, usual successors.';

create table error_record (
    session_id text not null,
    seq bigint not null,  -- of the call
    agent text not null,
    project text,
    fingerprint text not null,
    status text not null,  -- open | resolved | unresolved | noise
    record jsonb not null default '{}',  -- the ErrorRecord as JSON
    -- JSON: a `FixOutcome`, what kinds of fixes worked and failed; null until a merge has read the record
    fix_shape text,
    merged boolean not null default false,  -- whether its solution counts it as it is now
    primary key (session_id, seq),
    constraint error_status check (status in ('open', 'resolved', 'unresolved', 'noise'))
);
comment on table error_record is 'Failed calls of sessions, and what resolved them.';
create index error_record_group
    on error_record (agent, fingerprint, (record ->> 'occurred_at') desc, session_id desc, seq desc);
create index error_record_new on error_record (agent, fingerprint) where not merged;
create index error_record_version on error_record (split_part(fingerprint, ':', 1), agent);

create table solution (
    id text primary key,  -- a hash of agent, project and fingerprint
    agent text not null,
    project text,  -- none: several projects met the error
    fingerprint text not null,
    tool text not null,
    headline text not null,  -- the telling line of the error
    confirmed boolean not null default false,  -- whether a fix worked in two sessions or more
    sessions bigint not null default 0,  -- distinct sessions that met it; those of one lineage count as one
    occurrences bigint not null default 0,
    search text not null,  -- what full text search reads
    body jsonb not null default '{}',  -- the fixes, how often they worked, and what they rest on
    learned_at timestamptz not null,
    updated_at timestamptz not null,
    retired_at timestamptz,
    run_id text,  -- the run that wrote it, if the cause is a run
    cause text not null default 'run',  -- run | person | review | erasure
    audience text not null default 'all',  -- to whom it may be shown
    constraint solution_cause check (cause in ('run', 'person', 'review', 'erasure')),
    constraint solution_run check ((run_id is not null) = (cause = 'run'))
);
comment on table solution is 'Published solutions: an error''s fingerprint and its fixes.';
create index solution_fingerprint on solution (fingerprint);
create index solution_scope on solution (agent, project);
create index solution_search on solution using gin (to_tsvector('simple', search));
create index solution_signature on solution (substr(fingerprint, (strpos(fingerprint, '|') + 1)));

create table lesson (
    id text primary key,  -- a hash of person, project, kind and key
    person text not null,  -- the peer of the lineage roots that showed it; "" for the owner of the machine
    project text not null,
    kind text not null,
    key text not null,  -- what it is about, unique within its kind
    line text not null,
    score double precision not null default 0,  -- how much it helps at a session's start
    harm text,  -- why it is told to no agent; none: it may be told
    body jsonb not null default '{}',  -- the Lesson
    learned_at timestamptz not null,
    updated_at timestamptz not null,
    retired_at timestamptz,
    forgotten_at timestamptz,  -- a person wants none of it: its texts are gone, and it is not learned again
    run_id text,  -- the run that wrote it, if the cause is a run
    cause text not null default 'run',  -- run | person | review | erasure
    pinned boolean not null default false,  -- a person has it told whatever its figures say
    corrects boolean not null default false,  -- a person lets calls be corrected by it before they run
    constraint lesson_cause check (cause in ('run', 'person', 'review', 'erasure')),
    constraint lesson_run check ((run_id is not null) = (cause = 'run'))
);
comment on table lesson is 'What a person''s sessions in a project showed, whichever agents worked there.';
create index lesson_machine on lesson (person, key) where kind in ('harness', 'always_fails');
create index lesson_scope on lesson (project, person, score desc);
create index lesson_worked on lesson (person) where kind = 'call' and key = '*';

create table failed_again (
    run_id text not null,
    agent text not null,
    solution_id text not null,
    times bigint not null default 0,
    in_sessions bigint not null default 0,
    primary key (run_id, agent, solution_id),
    constraint failed_again_run_id_fkey foreign key (run_id) references run(id) on delete cascade
);
comment on table failed_again is 'The solutions whose errors a night read of though the fix was known before it.';

-- Learned from words: facts -------------------------------------------------------------------------------------------

create table candidate (
    agent text not null,
    project text,
    peer text,
    level text not null,  -- peer | project | agent: whom it belongs to
    subject text not null,
    predicate text not null,
    value text not null,
    sentence text not null,
    -- preference | profile | environment | project | decision | constraint | relation | observation
    kind text not null,
    confidence text not null,  -- explicit | inferred
    trust text not null,  -- who said it: person | user | agent | tool
    id text primary key,
    session_id text not null,
    seq bigint not null default 0,
    occurred_at timestamptz not null,
    quote text not null,
    extractor text not null,
    single_valued boolean not null default false,  -- whether a later value takes the place of an earlier one
    evidence jsonb not null default '[]',  -- [seq, quote] of each further event that proves it
    -- the revision that read it; 0: it belongs to all of them, as what rules find does
    revision integer not null default 0,
    quarantined text,  -- why a person has to review it first
    valid_from timestamptz,  -- since when it is true, where its words say so
    valid_to timestamptz,
    rejected text,  -- why it may not become a fact
    active boolean not null default true,  -- false: its revision is a draft, or another revision replaced it
    retired_by integer,  -- the revision that replaced it
    operation text,  -- add | reinforce | refine | supersede | noop: the decision about it
    target text,  -- the fact that the decision is about
    decided_by text,  -- "code", or the model
    why text,
    flagged text,  -- why it was kept beside a fact that it resembles
    as_subject text,  -- what it counts for, where that differs from what it says
    as_predicate text,
    as_value text,
    owner text not null default '',  -- the project or peer that its level names; "" for the agent's own
    reconciled boolean not null default false,
    run_id text not null,
    constraint candidate_level check (level in ('peer', 'project', 'agent')),
    constraint candidate_operation check (operation in ('add', 'reinforce', 'refine', 'supersede', 'noop')),
    constraint candidate_trust check (trust in ('user', 'agent', 'tool'))
);
comment on table candidate is 'Statements found in the log by rules or a model, with their verified quotes.';
create index candidate_accepted on candidate (agent, level, owner) where extractor = 'accepted:1';
create index candidate_group
    on candidate (agent, coalesce(as_subject, subject), coalesce(as_predicate, predicate), owner);
create index candidate_instruction on candidate (agent, level, owner, subject, value)
    where predicate = 'instruction' and rejected is null;
create index candidate_new on candidate (agent) where not reconciled;
create index candidate_quarantined on candidate (agent) where quarantined is not null;
create index candidate_retired on candidate (retired_by) where retired_by is not null;
create index candidate_revision on candidate (revision) where revision > 1;
create index candidate_session on candidate (session_id);
create index candidate_target on candidate (target) where target is not null;
create index candidate_undecided on candidate (agent)
    where revision > 0 and operation is null and rejected is null and quarantined is null;
create index candidate_waiting on candidate (occurred_at desc, id)
    where quarantined is not null and rejected is null;

create table fact (
    agent text not null,
    project text,
    peer text,
    level text not null,  -- peer | project | agent: whom it belongs to
    subject text not null,
    predicate text not null,
    value text not null,
    sentence text not null,
    -- preference | profile | environment | project | decision | constraint | relation | observation
    kind text not null,
    confidence text not null,  -- explicit | inferred
    trust text not null,  -- who said it: person | user | agent | tool
    id text primary key,
    valid_from timestamptz not null,  -- when it became true
    valid_to timestamptz,
    recorded_at timestamptz not null,  -- when memory began to believe it
    superseded_at timestamptz,  -- when memory stopped believing it
    superseded_by text,  -- the fact that replaced it, or the candidate that ended a standing preference
    superseded_reason text,  -- forgotten: by a person; revision: another revision reads it otherwise
    sessions bigint not null default 0,  -- distinct sessions that support it; those of one lineage count as one
    evidence text[] not null default '{}',  -- ids of candidates; `explain` shows their words
    flagged text,  -- why a person may want to review it
    run_id text,
    cause text not null default 'run',  -- run | person | review | erasure: what wrote it last
    recalled bigint not null default 0,  -- how often recall showed it
    last_recalled_at timestamptz,
    steers integer not null default 0,  -- steers that said it
    steers_succeeded integer not null default 0,  -- those of them after which the task succeeded
    steers_failed integer not null default 0,  -- those of them after which the task failed; of the rest nobody knows
    constraint fact_cause check (cause in ('run', 'person', 'review', 'erasure')),
    constraint fact_level check (level in ('peer', 'project', 'agent')),
    constraint fact_run check ((run_id is not null) = (cause = 'run')),
    constraint fact_superseded_by check ((superseded_by is not null) = (superseded_reason is not distinct from
        'replaced')),
    constraint fact_superseded_reason check (superseded_reason in ('replaced', 'forgotten', 'revision'))
);
comment on table fact is 'What is believed, since when, and the candidates it rests on.';
create index fact_flagged on fact (id) where flagged is not null and superseded_at is null;
create index fact_group on fact (agent, subject, predicate, coalesce(project, peer, ''));
create index fact_list on fact (sessions desc, ((steers_succeeded - steers_failed)) desc, valid_from desc, id);
create index fact_observed on fact (agent, project, sessions desc, id) where superseded_at is null and kind = 'observation';
create index fact_peer on fact (peer) where peer is not null;
create index fact_project on fact (project) where project is not null;
create index fact_recorded on fact (recorded_at);
create index fact_rule on fact (sessions desc, valid_from desc)
    where superseded_at is null and trust in ('person', 'user') and kind = 'constraint' and predicate <> 'instruction';
create index fact_search on fact using gin (to_tsvector('simple', sentence));
create index fact_standing on fact (agent, coalesce(project, ''), sessions desc, valid_from desc, id)
    where superseded_at is null and trust in ('person', 'user');
create index fact_stated on fact (agent) where trust = 'person';
create index fact_superseded on fact (superseded_by) where superseded_by is not null;
create index fact_superseded_at on fact (superseded_at) where superseded_by is not null;

create table fact_version (
    fact_id text not null,
    until timestamptz not null,
    value text not null,
    sentence text not null,
    valid_from timestamptz not null,
    valid_to timestamptz,
    superseded_at timestamptz,
    superseded_by text,
    superseded_reason text,
    primary key (fact_id, until),
    constraint fact_version_fact_id_fkey foreign key (fact_id) references fact(id) on delete cascade
);
comment on table fact_version is 'What was believed of a fact before it was refined or superseded.';

create table tombstone (
    fact_id text primary key,
    agent text not null,
    level text not null,
    project text,
    peer text,
    subject text not null,
    predicate text not null,
    value text not null,
    created_at timestamptz not null
);
comment on table tombstone is 'Values that a person told memory to forget.';
create index tombstone_agent on tombstone (agent);

create table revision (
    id integer primary key,  -- from 2; 1 is what the nights read before any draft was promoted
    model text not null,
    status text not null default 'draft',  -- draft | current | former | discarded
    choice jsonb not null default '{}',  -- which sessions it reads
    created_at timestamptz not null,
    promoted_at timestamptz,
    constraint revision_status_check check (status in ('draft', 'current', 'former', 'discarded'))
);
comment on table revision is 'Revisions of the facts: draft, current, former, discarded.';
create unique index revision_current on revision (status) where status = 'current';

create table revision_reach (
    revision bigint not null,
    session_id text not null,
    after bigint not null default 0,
    upto bigint not null default 0,
    primary key (revision, session_id)
);
comment on table revision_reach is 'How far a revision has read each session.';
create index revision_reach_session on revision_reach (session_id);

create table steer (
    session_id text not null,
    seq bigint not null,
    task text,  -- a hash of the id of the task that was open; None where none was
    run_id text not null,  -- that learned it, or later what became of it
    primary key (session_id, seq)
);
create index steer_run on steer (run_id);

create table task_outcome (
    session_id text not null,
    seq bigint not null,  -- of the TaskEnd
    task text not null,  -- a hash of its id
    outcome text not null,  -- of every steer before it in this task
    run_id text not null,
    primary key (session_id, seq)
);

create table injection (
    id text primary key,
    session_id text not null,  -- the session as it is called once it is imported
    agent text not null,
    project text,
    moment text not null,  -- session_start | prompt | before_call | failure
    cited text[] not null default '{}',  -- citations, such as "fact:f_1"
    tokens integer not null default 0,
    call_id text,  -- of a failure: the call that failed
    fix jsonb not null default '{}',  -- of a failure: the Suggestion as JSON, redacted; of a call: possible, made or shadow
    outcome text,  -- worked | failed | not_tried; None where the session's log does not tell yet
    created_at timestamptz not null
);
comment on table injection is 'What hooks put into agents'' contexts, and whether a fix among it was of use.';
create index injection_created on injection (created_at);
create index injection_session on injection (session_id);

-- Search --------------------------------------------------------------------------------------------------------------

create sequence episode_block;
create table episode (
    id bigint primary key,  -- neighbouring turns of a session have consecutive numbers
    session_id text not null,
    seq bigint not null default 0,
    scope bigint not null default 0,
    role text not null,  -- user | assistant
    speaker text,
    text text not null,
    occurred_at timestamptz not null,
    announces boolean not null default false,  -- an agent's words before its next call: what it will do, not what came of it
    constraint episode_role check (role in ('user', 'assistant'))
);
comment on table episode is 'Turns as recall searches them: redacted and bounded.';
create index episode_day on episode (occurred_at);
create unique index episode_turn on episode (session_id, seq);

create sequence indexed_fact_number_seq;
create table indexed_fact (
    id text primary key,
    number bigint not null default nextval('indexed_fact_number_seq'),
    agent text not null,
    scope bigint not null default 0,
    text text not null
);
comment on table indexed_fact is 'Facts as the index has them.';
create index indexed_fact_agent on indexed_fact (agent);
create unique index indexed_fact_number on indexed_fact (number);

create table posting (
    word bigint not null,
    scope bigint not null,
    ref bigint not null,
    primary key (word, scope, ref)
) with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 10000);
comment on table posting is 'The inverted index: words of turns and facts, by scope, packed into 63 bits.';
create index posting_sample on posting (word, scope) where (ref % 31) = 0;

create sequence corpus_id_seq;
create table corpus (
    id bigint primary key default nextval('corpus_id_seq'),
    scope bigint not null default 0,
    agent text not null,
    project text,
    peer text,
    turns bigint not null default 0,
    turn_words bigint not null default 0,
    facts bigint not null default 0,
    fact_words bigint not null default 0
);
comment on table corpus is 'Document counts and lengths of each scope, for BM25.';
create index corpus_agent on corpus (agent);

create table embedding (
    kind text not null,  -- turn | fact
    number bigint not null,
    scope bigint not null default 0,
    model text not null,
    vector real[] not null,
    primary key (kind, number),
    constraint embedding_kind check (kind in ('turn', 'fact'))
);
alter table embedding alter column vector set storage external;  -- vectors do not compress
comment on table embedding is 'Vectors of turns and facts.';
create index embedding_scope on embedding (scope, model);

-- Beside memory -------------------------------------------------------------------------------------------------------

create table store_item (
    namespace text[] collate "C" not null,  -- labels, the outermost first
    key text collate "C" not null,
    value jsonb not null,
    vectors bytea[] not null default '{}',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    ttl_minutes double precision,
    expires_at timestamptz,
    primary key (namespace, key)
);
comment on table store_item is 'What programs keep under a namespace and a key; nothing is learned from it.';
create index store_item_expires on store_item (expires_at) where expires_at is not null;

create table setting (
    name text primary key,
    value bytea not null default ''
);
comment on table setting is 'Values that belong to this database alone, such as the salt of its hashes.';
