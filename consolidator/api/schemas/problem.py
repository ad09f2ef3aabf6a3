"""A problem document, RFC 9457."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FieldError(BaseModel):
    """A part of a request that does not fit."""

    where: str = Field(description="such as body.text or query.limit")
    message: str


class ProblemDocument(BaseModel):
    """Why a request was not done, and what to do next."""

    type: str = Field(description="names the kind of problem")
    title: str = Field(description="the kind of problem, in words")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="what is wrong with this request")
    instance: str = Field(description="the path of the request")
    next: str = Field(description="what to do next")
    errors: list[FieldError] | None = Field(default=None, description="the parts that do not fit, of a 422")
