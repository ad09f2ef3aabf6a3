-- name: save
insert into solution (id, agent, project, fingerprint, tool, headline, confirmed, sessions, occurrences, search, body,
                      learned_at, updated_at, run_id, cause, audience)
values (%(id)s, %(agent)s, %(project)s, %(fingerprint)s, %(tool)s, %(headline)s, %(confirmed)s, %(sessions)s,
        %(occurrences)s, %(search)s, %(body)s, %(learned_at)s, %(updated_at)s, %(run_id)s, %(cause)s, %(audience)s)
on conflict (id) do update
set headline = excluded.headline, confirmed = excluded.confirmed, sessions = excluded.sessions,
    occurrences = excluded.occurrences, search = excluded.search, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id, cause = excluded.cause, audience = excluded.audience
where solution.body is distinct from excluded.body or solution.retired_at is not null
   or (solution.confirmed, solution.sessions, solution.occurrences, solution.audience)
      is distinct from (excluded.confirmed, excluded.sessions, excluded.occurrences, excluded.audience)
returning (xmax = 0) as added

-- name: delete_others
delete from solution where agent = %(agent)s and fingerprint = any(%(fingerprints)s) and not (id = any(%(kept)s))
returning audience
