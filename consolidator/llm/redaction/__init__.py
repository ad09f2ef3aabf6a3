"""Redaction: hides credentials as `[redacted:kind]` before a model, memory or an export sees a text.

Data flows from `redact` (texts and JSON values) to the finders: `credential_formats` (values known by their form, which
`provider_tokens` lists), `private_keys`, `manifests`, `headers`, `assignments` (values beside a telling name, which
`credential_names` finds), `command_passwords` (arguments of programs, by `program_options`) and `prose_secrets`.
`value_shapes` judges a value by itself. Each finder yields spans; `redact` merges and replaces them.

What may not happen here: logging or storing a hidden value, reading a file or a network, or a result that changes when
a text is redacted again. Every pattern is bounded, so that hostile texts cost no more than others.
"""
