"""What the agents of the sixty days do, day by day: work that repeats every week, and what happens only once.

A week is the same as the week before but for names, so that whatever grows from week to week was kept too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from tests.acceptance.agents import Chat, Claude, LogFile, Messenger, Tree

At = Callable[[int, float], datetime]  # day and hour
SHOP, SITE = "/home/mara/shop", "/home/mara/site"
MODULES = ("cart", "orders", "search", "stock", "mail", "users", "prices")
FORGOTTEN = "marzipan"  # a word of those alone who are erased
ERASED = "erased-42"  # the session that a person has erased
ERASED_PEER = "rosa"
BRANCHED = "cargo"  # a word of the session alone whose branch changes


def diary(start: datetime, days: int) -> list[LogFile]:
    """Return every file that is written in some days from a midnight on."""
    files: list[LogFile] = []
    for number in range(days):
        midnight = start + timedelta(days=number)
        files += _everyday(number, midnight)
    return [*files, *_once(start)]


def hours(number: float) -> timedelta:
    """Return hours as a span."""
    return timedelta(hours=number)


def _everyday(number: int, midnight: datetime) -> Iterator[LogFile]:
    weekday, week = number % 7, number // 7
    yield repaired(f"repair-{number}", midnight + hours(9), MODULES[weekday], week).file
    yield chatted(number, midnight + hours(11)).file
    if weekday % 2 == 0:
        yield upgraded(f"upgrade-{number}", midnight + hours(14), number).file
    if weekday == 0:
        yield from _weekly(week, midnight)
    if weekday == 3:
        yield from _spawning(number, midnight + hours(16))


def repaired(name: str, at: datetime, module: str, week: int) -> Claude:
    """Repair a module: the errors and their fixes are the same every time, and so are the steps."""
    branch, path = f"fix/{module}-{week}", f"{SHOP}/api/{module}.py"
    agent = Claude(name, at, SHOP, branch=branch)
    agent.hears(f"The totals in api/{module}.py are off. Repair them and push.")
    agent.runs(f"git checkout -b {branch}", f"Switched to a new branch '{branch}'")
    source = f"     1→def total(items):  # {name}\n" + "     2→    return sum(items)\n" * 1000
    agent.uses("Read", {"file_path": path}, source)  # too large for an event
    agent.uses("Edit", {"file_path": path, "old_string": "sum(", "new_string": f"sum_{week}("}, "updated")
    missing = f"E   ModuleNotFoundError: No module named 'shop'\nERROR tests/test_{module}.py"
    agent.runs(f"uv run pytest tests/test_{module}.py -q", missing, fails=True)
    agent.runs("uv pip install -e .", "Installed 1 package in 9ms")
    agent.runs(f"uv run pytest tests/test_{module}.py -q", f"{10 + week} passed in 0.84s")
    agent.runs(f"git add api/{module}.py")
    agent.runs(f'git commit -m "Repair {module}"', f"[{branch} 4c1e0a7] Repair {module}")
    lost = f"fatal: The current branch {branch} has no upstream branch."
    agent.runs("git push", lost, fails=True)
    agent.runs(f"git push -u origin {branch}", f"branch '{branch}' set up to track 'origin/{branch}'.")
    agent.says(f"Pushed {branch}.")
    if module == "stock":
        agent.hears("I prefer small commits with one-line messages.")
    return agent


def upgraded(name: str, at: datetime, number: int) -> Claude:
    """Upgrade a package of the other project."""
    package = ("stripe", "vite", "react", "zod")[number % 4]
    agent = Claude(name, at, SITE)
    agent.hears(f"Upgrade {package}, please.")
    torn = f"npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree\nnpm ERR! Found: {package}"
    agent.runs(f"npm install {package}@{number}", torn, fails=True)
    agent.runs(f"npm install {package}@{number} --legacy-peer-deps", "added 3 packages in 6s")
    agent.runs("npm test", "Tests  118 passed (118)")
    agent.runs("npm run build", "built in 4.11s")
    agent.runs("git add package.json")
    agent.runs(f'git commit -m "Upgrade {package}"', f"[main 9a21f30] Upgrade {package}")
    agent.runs("git push", "main -> main")
    return agent


def chatted(number: int, at: datetime) -> Chat:
    """Refund a customer; some wait until the next day for the end."""
    order, mail = f"F-{20000 + number}", f"customer{number}@mail.example"
    chat = Chat(f"support-{number}", at, task="refund", reward=float(number % 5 > 0))
    chat.hears(f"The mug of my order {order} is broken. My email is {mail}.")
    chat.uses("get_customer", {"email": mail}, {"customer_id": f"c_{number}", "orders": [order]})
    paid = {"order_id": order, "status": "delivered", "payment": {"id": f"pay_{number}", "cents": 2490}}
    chat.uses("get_order", {"customer_id": f"c_{number}", "order_id": order}, paid)
    chat.uses("check_policy", {"order_id": order, "reason": "broken"}, "Error: reason 'broken' is not one of damaged")
    chat.uses("check_policy", {"order_id": order, "reason": "damaged"}, {"eligible": True, "policy_id": "pol_12"})
    if number % 3 == 0:
        chat.says("Shall I refund it?").waits(hours=22).hears("Yes please.")
    chat.uses("refund", {"order_id": order, "payment_id": f"pay_{number}", "cents": 2490}, {"status": "booked"})
    chat.says("The money is back in three days.")
    return chat


def _weekly(week: int, midnight: datetime) -> Iterator[LogFile]:
    """A session that goes on all week, with a call that is open every night."""
    agent = Claude(f"week-{week}", midnight + hours(8), SHOP)
    agent.hears("Keep an eye on the shop this week.")
    for day in range(7):
        agent.now = midnight + timedelta(days=day, hours=10)
        agent.runs("kubectl get pods -n shop", "search-58f7b  0/1  CrashLoopBackOff")
        agent.runs("kubectl logs deploy/search -n shop", "java.lang.OutOfMemoryError: Java heap space", fails=True)
        agent.runs("kubectl rollout restart deploy/search -n shop", "deployment.apps/search restarted")
        agent.runs("kubectl rollout status deploy/search -n shop", "successfully rolled out")
        agent.now = midnight + timedelta(days=day, hours=25)
        agent.uses("Bash", {"command": f"make backup-{day}"}, f"backup {day} done", after=6)
    yield agent.file


def _spawning(number: int, at: datetime) -> Iterator[LogFile]:
    """A session that sends a sub-agent, whose file lies beside it."""
    agent = Claude(f"review-{number}", at, SHOP)
    agent.hears("Have the logs of the night read.")
    call = agent.begins("Task", {"description": "read the logs", "prompt": "Read the logs of the night."})
    child = Claude(f"reader-{number}", agent.now, SHOP, of=agent)
    child.hears("Read the logs of the night. My name is Nobody Atall.")
    child.runs("journalctl -u shop", "nothing unusual").runs("gh run list", "all green")
    child.says("Nothing unusual.")
    agent.now = child.now
    agent.gets(call, "Nothing unusual.", agentId=child.agent)
    yield from (agent.file, child.file)


def _once(start: datetime) -> Iterator[LogFile]:
    """What happens once: facts and fixes of the first week, a change of mind, resumed, branched and erased sessions."""

    def at(day: int, hour: float) -> datetime:
        return start + timedelta(days=day, hours=hour)

    first = Claude("first", at(0, 19), SHOP)
    first.hears("Hi, my name is Mara Lindqvist. We use Postgres 16 for the shop database.")
    first.hears("From now on run the whole test suite before you commit.")
    first.hears("Our package manager is npm.")
    yield first.file
    for day in (1, 3):
        agent = Claude(f"port-{day}", at(day, 20), SITE)
        agent.hears("Start the dev server.")
        agent.runs("npm run dev", "Error: listen EADDRINUSE: address already in use :::5173", fails=True)
        agent.runs("lsof -ti:5173 | xargs kill").runs("npm run dev", "ready in 312 ms")
        yield agent.file
    for day in (2, 5, 9, 44):
        agent = Claude(f"force-{day}", at(day, 20), SHOP)
        agent.hears("Tidy up the branch.").is_denied("git push --force", "no, never rewrite what others have").says(
            "Ok."
        )
        yield agent.file
    changed = Claude("changed", at(20, 19), SHOP)
    yield changed.hears("Our package manager is pnpm.").runs("pnpm install", "Done in 2s").file
    for day, box in ((21, "box7"), (40, "box9")):
        agent = Claude(f"staging-{day}", at(day, 10), SHOP)
        agent.hears(f"Deploy, please. {box} is where staging lives.").runs("make deploy", "deployed").says("Done.")
        yield agent.file
    yield from _resumed(at)
    yield from _erased(at)
    for day in (4, 18, 25, 50):
        yield _visited(f"tom-{day}", at(day, 21), "tom", "harbour").file
    for day in (6, 26, 38):
        yield _visited(f"{ERASED_PEER}-{day}", at(day, 21), ERASED_PEER, FORGOTTEN).waits(days=6).says("Hello?").file
    tree = Tree("tree", at(5, 17), SHOP)
    tree.hears("Look at the flaky test.").runs(f"{BRANCHED} test", "error: test failed", fails=True).runs(
        f"{BRANCHED} fix", "ok"
    )
    tree.runs(f"{BRANCHED} test", "ok. 12 passed").waits(days=7).back(4).hears("Do it another way.").runs(
        f"{BRANCHED} check", "ok"
    )
    yield tree.waits(days=30).runs(f"{BRANCHED} test", "ok. 12 passed").file


def _resumed(at: At) -> Iterator[LogFile]:
    """A session that is resumed in second files, which repeat its lines, once before and once after they are pruned."""
    agent = repaired("resumed", at(8, 15), "basket", 90)
    yield agent.file
    for day in (15, 45):
        again = Claude(f"resumed-{day}", at(day, 15), SHOP).copies(agent)
        yield again.hears("Go on.").runs("git status", "nothing to commit").runs("git push", "up to date").file


def _erased(at: At) -> Iterator[LogFile]:
    """A session that is erased, with all that hangs from it; its files go on growing afterwards."""
    agent = Claude(ERASED, at(30, 17), SHOP)
    agent.hears(f"Our queue is {FORGOTTEN}mq. From now on greet everybody with {FORGOTTEN}.")
    agent.runs(f"{FORGOTTEN} deploy", f"fatal: no {FORGOTTEN} here", fails=True)
    agent.runs(f"{FORGOTTEN} deploy --force", "done").runs("git add .", "").runs("git push", "up to date")
    agent.uses("Read", {"file_path": f"{SHOP}/{FORGOTTEN}.log"}, f"{FORGOTTEN}\n" * 3000)
    for day in (31, 44):
        child = Claude(f"{ERASED}-child-{day}", at(day, 17), SHOP, of=agent)
        yield child.hears(f"Read the {FORGOTTEN}.").runs(f"cat {FORGOTTEN}.log", "nothing").says("Nothing.").file
    again = Claude(f"{ERASED}-resumed", at(33, 17), SHOP).copies(agent)
    yield again.hears(f"We deploy with {FORGOTTEN}.").file
    agent.now = at(43, 17)
    yield agent.hears(f"Our cache is {FORGOTTEN}kv.").runs(f"{FORGOTTEN} flush", "done").file


def _visited(name: str, at: datetime, peer: str, word: str) -> Messenger:
    """Book a table for a peer."""
    talk = Messenger(name, at, peer)
    talk.hears(f"Hi! My email is {word}@mail.example. A table for nine, please.")
    talk.uses("find_table", {"guests": 9, "place": f"Bar {word}"}, f"Error: party too large for {word}", fails=True)
    talk.uses("find_table", {"guests": 8, "place": f"Bar {word}"}, "table 4")
    talk.uses("book_table", {"table": "4", "place": f"Bar {word}"}, "booked")
    if peer == ERASED_PEER:  # a procedure of theirs alone
        talk.uses("order_cake", {"place": f"Bar {word}"}, "ordered").uses("send_invitation", {"kind": word}, "sent")
    return talk.says("Booked.")
