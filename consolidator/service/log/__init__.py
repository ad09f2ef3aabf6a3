"""The log: sessions, events, recording, export, erasure.

Front ends call in; events go through the one write door of `store.log`. Only erasure deletes, and it is logged.
"""
