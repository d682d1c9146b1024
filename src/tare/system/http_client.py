"""Requests to a site or a webhook that follow no redirect."""

import urllib.request


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead a token elsewhere, or a message into the network of whoever sends it."""

    def redirect_request(self, *_: object) -> None:
        return None


def opener_without_redirects() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)
