"""The demo's sample sessions as scripts that people can read and write, and what makes log files of them."""
