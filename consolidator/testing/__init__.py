"""Tools for testing agents built on consolidator: a stand-in for a model server, and kill points of the runtime.

A test scripts replies (`ScriptedReply`), starts a `ModelServer`, and passes its URL to the agent; requests come back in
the server's lists. Nothing in the package imports this room, and no reply depends on time or chance.
"""

from consolidator.testing.model_server import ModelServer, ScriptedReply

__all__ = ["ModelServer", "ScriptedReply"]
