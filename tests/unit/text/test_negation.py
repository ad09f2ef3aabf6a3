"""Which value a sentence denies: only one that a negation governs, and not one that stands beside another negation."""

from __future__ import annotations

import pytest

from consolidator.memory.text.negation import denies_value

DENIED = [
    ("lives_in", "Bern", "The user no longer lives in Bern."),
    ("uses", "Docker", "The team does not use Docker."),
    ("uses", "tabs", "Tabs are never used in this project."),
    ("lives_in", "Basel", "Basel is not where the user lives."),
    ("database", "MySQL", "The database is not MySQL but PostgreSQL."),
    ("drinks", "coffee", "The user drinks tea, not coffee."),
    ("has", "car", "The user has no car."),
    ("owns", "dog", "Milo never owned a dog."),
    ("uses", "Webpack", "They stopped using Webpack in 2024."),
    ("has_visited", "Rome", "Jon has never been to Rome, which he regrets."),
    ("works_on", "Fridays", "The user, who has two jobs, does not work on Fridays."),
    ("speaks", "French", "Nobody in the team speaks French."),
    ("likes", "cilantro", "The user cannot stand cilantro."),
    ("wants", "emoji in commits", "The user doesn't want the agent to put emoji in commits."),
    ("supports", "Windows", "The CLI, which runs on Linux, doesn't support Windows."),
    ("employer", "Northwind", "The user isn't working at Northwind any more because the office moved."),
    ("deploys_on", "Friday", "We use Heroku, but we never deploy on Friday."),
    ("allows", "force pushes", "Force pushes are not allowed on main."),
    ("home", "Utrecht", "Utrecht isn't the user's home any longer."),
    ("uses", "yarn", "Neither npm nor yarn is used."),
    ("mag", "Tee", "Die Nutzerin mag Tee nicht."),
    ("wohnt_in", "Bern", "Der Nutzer wohnt nicht mehr in Bern."),
    ("habite", "Lyon", "Elle n'habite pas à Lyon."),
    ("plays", "chess", "He avoids tournaments and does not play chess."),
    ("has_pet", "dogs", "Anna has never had pets such as dogs."),
    ("smokes", "cigarettes", "Caroline gave up smoking cigarettes."),
    ("favourite_team", "Wolves", "The Wolves are no longer Tim's favourite team."),
    ("timezone", "CET", "The user's time zone is not CET."),
    ("has_tested", "staging server", "The staging server was not tested."),
    ("has_told", "Ann", "I haven't told Ann that I moved to Oslo."),
    ("port", "5433", "Nobody told me that the port isn't 5433."),
    ("knows", "Ann", "The user does not know Ann."),
    ("lives_in", "Leeds", "His wife lives there but the user doesn't live in Leeds."),
    ("uses", "Docker", "They do not use Docker, which slows them down."),
    ("has_visited", "Rome", "Tim has never visited Rome, his mother's home town."),
    ("recommends", "Vim", "The user can't recommend Vim."),
    ("runs_on", "Windows", "The service does not run on Windows, their main platform."),
    ("likes", "Leeds", "My wife doesn't like Leeds but we live there."),
]
ASSERTED = [
    ("gpu", "NVIDIA GB10", "The GPU is an NVIDIA GB10, which PyTorch 2.5.1 does not support."),
    ("gpu", "GB10", "The user's GPU, a GB10, does not support PyTorch 2.5.1."),
    ("lives_in", "Hamburg", "The user, who does not like Berlin, lives in Hamburg."),
    ("eats", "fish", "The user does not eat meat but eats fish."),
    ("database", "PostgreSQL", "The database is not MySQL but PostgreSQL."),
    ("drinks", "tea", "The user drinks tea, not coffee."),
    ("uses", "Podman", "The team does not use Docker and uses Podman."),
    ("speaks", "German", "The user speaks not only French but also German."),
    ("speaks", "French", "The user speaks not only French but also German."),
    ("employer", "GreenAid", "The user works for a not-for-profit, GreenAid."),
    ("error_message", "timeout", 'The error is "timeout", and its hint reads "do not retry".'),
    ("prefers", "short answers", "Since the user doesn't like reading, they prefer short answers."),
    ("lives_in", "Oslo", "The user lives in Oslo; his brother does not."),
    ("eats", "meat", "Unlike his brother, who does not, the user eats meat."),
    ("opens_at", "9:00", "The shop does not open until 9:00."),
    ("retry_limit", "3", "Requests are retried not more than 3 times."),
    ("loves", "coffee", "The user can't live without coffee."),
    ("accepts", "weekend calls", "The user doesn't mind weekend calls."),
    ("port", "8443", "The port is 8443 (not 8080)."),
    ("linter", "ruff", "The linter is ruff because flake8 never finished."),
    ("likes", "the beach", "The user likes the beach when it isn't crowded."),
    ("hobby", "climbing", "Climbing is the user's hobby, although she doesn't own gear."),
    ("dog", "Biscuit", "The user's dog Biscuit doesn't bark."),
    ("excited_about", "the trip to Lisbon", "Gina can't wait for the trip to Lisbon."),
    ("loves", "jazz", "Tim can't get enough of jazz."),
    ("requires", "Node 20", "The build does not work without Node 20."),
    ("server", "10.0.0.5", "The staging server is 10.0.0.5 - it can't be reached from outside."),
    ("wants", "never force push", "The user never wants force pushes: never force push."),
    ("never_does", "force push", "The user never force pushes."),
    ("wants", "no comments", "The user does not want comments."),
    ("allergic_to", "peanuts", "The user is allergic to peanuts."),
    ("mag", "Tee", "Die Nutzerin mag Tee, aber nicht Kaffee."),
    ("wife", "Ana", "The user's wife is Ana and she does not eat meat."),
    ("package_manager", "pnpm", "The package manager is pnpm; npm must not be used."),
    ("interest", "mindfulness", "Deborah never misses a chance to practice mindfulness."),
    ("test_command", "make test", "Run make test, never pytest directly."),
    ("afraid_of", "heights", "Tim isn't fond of roller coasters because he is afraid of heights."),
    ("deploys_to", "eu-west-1", "The service deploys to eu-west-1 and not to us-east-1."),
    ("owns", "a bike", "Jon owns a bike that he never rides."),
    ("port", "5433", "Nobody told me that the port is 5433."),
    ("home", "Oslo", "I haven't told Ann that I moved to Oslo."),
    ("database", "MySQL", "The user did not know that the database is MySQL."),
    ("employer", "Northwind", "Her brother never mentions that she works at Northwind."),
    ("server", "Debian", "Nobody noticed that the server runs Debian."),
    ("uses", "Fly.io", "They switched from Heroku to Fly.io."),
    ("previous_home", "Oslo", "The user moved away from Oslo."),
    ("moved_from", "Oslo", "The user moved away from Oslo."),
]


@pytest.mark.parametrize(("predicate", "value", "sentence"), DENIED)
def test_a_value_that_a_negation_governs_is_denied(predicate: str, value: str, sentence: str) -> None:
    assert denies_value(sentence, predicate, value)


@pytest.mark.parametrize(("predicate", "value", "sentence"), ASSERTED)
def test_a_negation_of_something_else_leaves_a_value_asserted(predicate: str, value: str, sentence: str) -> None:
    assert not denies_value(sentence, predicate, value)
