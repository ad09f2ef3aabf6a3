"""The commands a newcomer needs first: demo, import, learned.

Arguments in, one service function called, tables or JSON out. No query and no transaction here.
"""
