"""Reader of chat messages in the form of OpenAI's API.

`messages` finds the conversations in a file; `conversation` turns one conversation's messages into events. A result
counts as failed only if its text is clearly an error, since these logs have no status.
"""
