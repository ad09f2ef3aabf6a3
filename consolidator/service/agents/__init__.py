"""Sessions of agents built on the runtime: their context, costs and replay."""
