"""Sessions as a service: what people and programs do to them, each within what its viewer reaches.

Front ends call in with a viewer; a session is found only by `access`.
"""
