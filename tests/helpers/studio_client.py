"""A client of the studio as its own pages are, or as somebody else is."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi.testclient import TestClient

__all__ = ["ADDRESS", "PORT", "TOKEN", "Client"]

PORT, TOKEN = 8123, "the-token-of-this-studio"
ADDRESS = f"http://127.0.0.1:{PORT}"


class Client(TestClient):
    """Has the cookie and the origin of the studio, unless they are taken away."""

    def __init__(
        self, app: Any, *, token: str | None = TOKEN, origin: str | None = ADDRESS
    ) -> None:
        headers = {} if origin is None else {"origin": origin}
        super().__init__(app, base_url=ADDRESS, headers=headers, follow_redirects=False)
        if token is not None:
            self.get("/", params={"token": token})

    def array(self, path: str, **question: Any) -> np.ndarray[Any, Any]:
        """An array that was asked for."""
        found = self.get(path, params=question)
        assert found.status_code == 200, found.text
        shape = [int(n) for n in found.headers["x-shape"].split(",")]
        return np.frombuffer(found.content, dtype="<f4").reshape(shape)
