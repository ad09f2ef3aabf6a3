"""Values that belong to one database."""

from __future__ import annotations

from sqlmodel import SQLModel

from consolidator.models.columns import bytes_column, text_column


class SettingTable(SQLModel, table=True):
    """A value by its name, such as the salt of the database's hashes."""

    __tablename__ = "setting"
    name: str = text_column(primary_key=True)
    value: bytes = bytes_column()
