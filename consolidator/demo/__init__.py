"""The demo: logs of three agents over four weeks, and what the nights learn from them."""
