"""What the agents of the sixty days do, day by day: work that repeats every week, and what happens only once.

A week is the same as the week before but for names, so that whatever grows from week to week was kept too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from tests.acceptance.agents import ChatLog, ClaudeCodeLog, Claw0Log, LogFile, PiLog

At = Callable[[int, float], datetime]  # day and hour
SHOP, SITE = "/home/mara/shop", "/home/mara/site"
MODULES = ("cart", "orders", "search", "stock", "mail", "users", "prices")
FORGOTTEN = "marzipan"  # a word of those alone who are erased
ERASED = "erased-42"  # the session that a person has erased
ERASED_PEER = "rosa"
BRANCHED = "cargo"  # a word of the session alone whose branch changes


def write_diary(start: datetime, days: int) -> list[LogFile]:
    """Return every file that agents write in some days from a midnight on."""
    files: list[LogFile] = []
    for number in range(days):
        midnight = start + timedelta(days=number)
        files += _daily_files(number, midnight)
    return [*files, *_single_files(start)]


def hours(number: float) -> timedelta:
    """Return hours as a span."""
    return timedelta(hours=number)


def _daily_files(number: int, midnight: datetime) -> Iterator[LogFile]:
    weekday, week = number % 7, number // 7
    yield repair_session(f"repair-{number}", midnight + hours(9), MODULES[weekday], week).file
    yield refund_chat(number, midnight + hours(11)).file
    if weekday % 2 == 0:
        yield upgrade_session(f"upgrade-{number}", midnight + hours(14), number).file
    if weekday == 0:
        yield from _weekly_files(week, midnight)
    if weekday == 3:
        yield from _sub_agent_files(number, midnight + hours(16))


def repair_session(name: str, at: datetime, module: str, week: int) -> ClaudeCodeLog:
    """Repair a module: the errors and their fixes are the same every time, and so are the steps."""
    branch, path = f"fix/{module}-{week}", f"{SHOP}/api/{module}.py"
    agent = ClaudeCodeLog(name, at, SHOP, branch=branch)
    agent.add_user_message(f"The totals in api/{module}.py are off. Repair them and push.")
    agent.add_command(f"git checkout -b {branch}", f"Switched to a new branch '{branch}'")
    source = f"     1→def total(items):  # {name}\n" + "     2→    return sum(items)\n" * 1000
    agent.add_call("Read", {"file_path": path}, source)  # too large for an event
    agent.add_call("Edit", {"file_path": path, "old_string": "sum(", "new_string": f"sum_{week}("}, "updated")
    missing = f"E   ModuleNotFoundError: No module named 'shop'\nERROR tests/test_{module}.py"
    agent.add_command(f"uv run pytest tests/test_{module}.py -q", missing, fails=True)
    agent.add_command("uv pip install -e .", "Installed 1 package in 9ms")
    agent.add_command(f"uv run pytest tests/test_{module}.py -q", f"{10 + week} passed in 0.84s")
    agent.add_command(f"git add api/{module}.py")
    agent.add_command(f'git commit -m "Repair {module}"', f"[{branch} 4c1e0a7] Repair {module}")
    lost = f"fatal: The current branch {branch} has no upstream branch."
    agent.add_command("git push", lost, fails=True)
    agent.add_command(f"git push -u origin {branch}", f"branch '{branch}' set up to track 'origin/{branch}'.")
    agent.add_answer(f"Pushed {branch}.")
    if module == "stock":
        agent.add_user_message("I prefer small commits with one-line messages.")
    return agent


def upgrade_session(name: str, at: datetime, number: int) -> ClaudeCodeLog:
    """Upgrade a package of the other project."""
    package = ("stripe", "vite", "react", "zod")[number % 4]
    agent = ClaudeCodeLog(name, at, SITE)
    agent.add_user_message(f"Upgrade {package}, please.")
    torn = f"npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree\nnpm ERR! Found: {package}"
    agent.add_command(f"npm install {package}@{number}", torn, fails=True)
    agent.add_command(f"npm install {package}@{number} --legacy-peer-deps", "added 3 packages in 6s")
    agent.add_command("npm test", "Tests  118 passed (118)")
    agent.add_command("npm run build", "built in 4.11s")
    agent.add_command("git add package.json")
    agent.add_command(f'git commit -m "Upgrade {package}"', f"[main 9a21f30] Upgrade {package}")
    agent.add_command("git push", "main -> main")
    return agent


def refund_chat(number: int, at: datetime) -> ChatLog:
    """Refund a customer; some wait until the next day for the end."""
    order, mail = f"F-{20000 + number}", f"customer{number}@mail.example"
    chat = ChatLog(f"support-{number}", at, task="refund", reward=float(number % 5 > 0))
    chat.add_user_message(f"The mug of my order {order} is broken. My email is {mail}.")
    chat.add_call("get_customer", {"email": mail}, {"customer_id": f"c_{number}", "orders": [order]})
    paid = {"order_id": order, "status": "delivered", "payment": {"id": f"pay_{number}", "cents": 2490}}
    chat.add_call("get_order", {"customer_id": f"c_{number}", "order_id": order}, paid)
    chat.add_call(
        "check_policy", {"order_id": order, "reason": "broken"}, "Error: reason 'broken' is not one of damaged"
    )
    chat.add_call("check_policy", {"order_id": order, "reason": "damaged"}, {"eligible": True, "policy_id": "pol_12"})
    if number % 3 == 0:
        chat.add_answer("Shall I refund it?").wait(hours=22).add_user_message("Yes please.")
    chat.add_call("refund", {"order_id": order, "payment_id": f"pay_{number}", "cents": 2490}, {"status": "booked"})
    chat.add_answer("The money is back in three days.")
    return chat


def _weekly_files(week: int, midnight: datetime) -> Iterator[LogFile]:
    """A session that goes on all week, with a call that is open every night."""
    agent = ClaudeCodeLog(f"week-{week}", midnight + hours(8), SHOP)
    agent.add_user_message("Keep an eye on the shop this week.")
    for day in range(7):
        agent.now = midnight + timedelta(days=day, hours=10)
        agent.add_command("kubectl get pods -n shop", "search-58f7b  0/1  CrashLoopBackOff")
        agent.add_command(
            "kubectl logs deploy/search -n shop", "java.lang.OutOfMemoryError: Java heap space", fails=True
        )
        agent.add_command("kubectl rollout restart deploy/search -n shop", "deployment.apps/search restarted")
        agent.add_command("kubectl rollout status deploy/search -n shop", "successfully rolled out")
        agent.now = midnight + timedelta(days=day, hours=25)
        agent.add_call("Bash", {"command": f"make backup-{day}"}, f"backup {day} done", after=6)
    yield agent.file


def _sub_agent_files(number: int, at: datetime) -> Iterator[LogFile]:
    """A session that sends a sub-agent, whose file lies beside it."""
    agent = ClaudeCodeLog(f"review-{number}", at, SHOP)
    agent.add_user_message("Have the logs of the night read.")
    call = agent.start_call("Task", {"description": "read the logs", "prompt": "Read the logs of the night."})
    child = ClaudeCodeLog(f"reader-{number}", agent.now, SHOP, of=agent)
    child.add_user_message("Read the logs of the night. My name is Nobody Atall.")
    child.add_command("journalctl -u shop", "nothing unusual").add_command("gh run list", "all green")
    child.add_answer("Nothing unusual.")
    agent.now = child.now
    agent.finish_call(call, "Nothing unusual.", agentId=child.agent)
    yield from (agent.file, child.file)


def _single_files(start: datetime) -> Iterator[LogFile]:
    """What happens once: facts and fixes of the first week, a change of mind, resumed, branched and erased sessions."""

    def at(day: int, hour: float) -> datetime:
        return start + timedelta(days=day, hours=hour)

    first = ClaudeCodeLog("first", at(0, 19), SHOP)
    first.add_user_message("Hi, my name is Mara Lindqvist. We use Postgres 16 for the shop database.")
    first.add_user_message("From now on run the whole test suite before you commit.")
    first.add_user_message("Our package manager is npm.")
    yield first.file
    for day in (1, 3):
        agent = ClaudeCodeLog(f"port-{day}", at(day, 20), SITE)
        agent.add_user_message("Start the dev server.")
        agent.add_command("npm run dev", "Error: listen EADDRINUSE: address already in use :::5173", fails=True)
        agent.add_command("lsof -ti:5173 | xargs kill").add_command("npm run dev", "ready in 312 ms")
        yield agent.file
    for day in (2, 5, 9, 44):
        agent = ClaudeCodeLog(f"force-{day}", at(day, 20), SHOP)
        agent.add_user_message("Tidy up the branch.").add_denied_command(
            "git push --force", "no, never rewrite what others have"
        ).add_answer("Ok.")
        yield agent.file
    changed = ClaudeCodeLog("changed", at(20, 19), SHOP)
    yield changed.add_user_message("Our package manager is pnpm.").add_command("pnpm install", "Done in 2s").file
    for day, box in ((21, "box7"), (40, "box9")):
        agent = ClaudeCodeLog(f"staging-{day}", at(day, 10), SHOP)
        agent.add_user_message(f"Deploy, please. {box} is where staging lives.").add_command(
            "make deploy", "deployed"
        ).add_answer("Done.")
        yield agent.file
    yield from _resumed_files(at)
    yield from _erased_files(at)
    for day in (4, 18, 25, 50):
        yield _booking_talk(f"tom-{day}", at(day, 21), "tom", "harbour").file
    for day in (6, 26, 38):
        yield (
            _booking_talk(f"{ERASED_PEER}-{day}", at(day, 21), ERASED_PEER, FORGOTTEN)
            .wait(days=6)
            .add_answer("Hello?")
            .file
        )
    tree = PiLog("tree", at(5, 17), SHOP)
    tree.add_user_message("Look at the flaky test.").add_command(
        f"{BRANCHED} test", "error: test failed", fails=True
    ).add_command(f"{BRANCHED} fix", "ok")
    tree.add_command(f"{BRANCHED} test", "ok. 12 passed").wait(days=7).go_back(4).add_user_message(
        "Do it another way."
    ).add_command(f"{BRANCHED} check", "ok")
    yield tree.wait(days=30).add_command(f"{BRANCHED} test", "ok. 12 passed").file


def _resumed_files(at: At) -> Iterator[LogFile]:
    """A session that is resumed in second files, which repeat its lines, once before and once after they are pruned."""
    agent = repair_session("resumed", at(8, 15), "basket", 90)
    yield agent.file
    for day in (15, 45):
        again = ClaudeCodeLog(f"resumed-{day}", at(day, 15), SHOP).copy_lines(agent)
        yield (
            again.add_user_message("Go on.")
            .add_command("git status", "nothing to commit")
            .add_command("git push", "up to date")
            .file
        )


def _erased_files(at: At) -> Iterator[LogFile]:
    """A session that is erased, with all that hangs from it; its files go on growing afterwards."""
    agent = ClaudeCodeLog(ERASED, at(30, 17), SHOP)
    agent.add_user_message(f"Our queue is {FORGOTTEN}mq. From now on greet everybody with {FORGOTTEN}.")
    agent.add_command(f"{FORGOTTEN} deploy", f"fatal: no {FORGOTTEN} here", fails=True)
    agent.add_command(f"{FORGOTTEN} deploy --force", "done").add_command("git add .", "").add_command(
        "git push", "up to date"
    )
    agent.add_call("Read", {"file_path": f"{SHOP}/{FORGOTTEN}.log"}, f"{FORGOTTEN}\n" * 3000)
    for day in (31, 44):
        child = ClaudeCodeLog(f"{ERASED}-child-{day}", at(day, 17), SHOP, of=agent)
        yield (
            child.add_user_message(f"Read the {FORGOTTEN}.")
            .add_command(f"cat {FORGOTTEN}.log", "nothing")
            .add_answer("Nothing.")
            .file
        )
    again = ClaudeCodeLog(f"{ERASED}-resumed", at(33, 17), SHOP).copy_lines(agent)
    yield again.add_user_message(f"We deploy with {FORGOTTEN}.").file
    agent.now = at(43, 17)
    yield agent.add_user_message(f"Our cache is {FORGOTTEN}kv.").add_command(f"{FORGOTTEN} flush", "done").file


def _booking_talk(name: str, at: datetime, peer: str, word: str) -> Claw0Log:
    """Book a table for a peer."""
    talk = Claw0Log(name, at, peer)
    talk.add_user_message(f"Hi! My email is {word}@mail.example. A table for nine, please.")
    talk.add_call("find_table", {"guests": 9, "place": f"Bar {word}"}, f"Error: party too large for {word}", fails=True)
    talk.add_call("find_table", {"guests": 8, "place": f"Bar {word}"}, "table 4")
    talk.add_call("book_table", {"table": "4", "place": f"Bar {word}"}, "booked")
    if peer == ERASED_PEER:  # a procedure of theirs alone
        talk.add_call("order_cake", {"place": f"Bar {word}"}, "ordered").add_call(
            "send_invitation", {"kind": word}, "sent"
        )
    return talk.add_answer("Booked.")
