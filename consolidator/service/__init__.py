"""What people and agents ask for. Every front end (command line, MCP, chat) calls only this, so all answer the same.

Each function takes the open database, owns its transaction, and returns typed rows or JSON-ready reports. Data flows
from the front ends through here to the jobs, the runtime and the store; nothing in here prints, parses arguments or
holds a state between two calls.
"""
