"""Tells a webhook of every regression that a check has confirmed: once, and again until it was heard."""

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import sqlalchemy as sa

from tare.errors import BadInput
from tare.report.numbers import change_text
from tare.site.questions import Scope, machine_labels, regressions
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import now
from tare.system.http_client import opener_without_redirects

TIMEOUT_S, MOST_TRIES, MOST_AT_ONCE = 10.0, 8, 20
# Older ones are not told: a server that starts again does not repeat the past.
NEWEST_H = 48
SCHEMES = ("https", "http")


def check_webhook(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadInput("a webhook is an address that begins with https:// or http://")
    return url


def send_alerts(store: Store, webhook: str, site: str = "") -> int:
    """Sends what was not delivered yet; returns how many were. `site` is the address of the site, for links."""
    delivered = 0
    for row in _undelivered(store):
        heard = _post(webhook, _message(store, row, site))
        table = schema.alerts
        with store.transaction() as connection:
            known = connection.execute(sa.select(table.c.tries).where(table.c.regression == row.id)).one_or_none()
            values = {"tries": (known.tries if known else 0) + 1, "delivered": now() if heard else None}
            if known is None:
                connection.execute(sa.insert(table).values(regression=row.id, created=now(), **values))
            else:
                connection.execute(sa.update(table).where(table.c.regression == row.id).values(values))
        delivered += heard
    return delivered


def _undelivered(store: Store) -> list[sa.Row[tuple[object, ...]]]:
    since = (datetime.now(UTC) - timedelta(hours=NEWEST_H)).isoformat(timespec="microseconds")
    told = {
        row.regression: row for row in store.rows(sa.select(schema.alerts).where(schema.alerts.c.created >= since))
    }
    rows = [row for row in regressions(Scope(store), state="open", days=NEWEST_H // 24) if row.source == "check"]
    waiting = [
        row
        for row in rows
        if row.id not in told or not (told[row.id].delivered or told[row.id].tries >= MOST_TRIES)
    ]
    return waiting[:MOST_AT_ONCE]


def _message(store: Store, row: sa.Row[tuple[object, ...]], site: str) -> dict[str, object]:
    """`text` is what chat programs show; the rest is for programs."""
    labels = machine_labels(Scope(store))
    change = change_text(row.ratio, row.low, row.high)
    path = f"regressions/{row.id}/"
    address = f"{site.rstrip('/')}/{path}" if site else ""
    machine = labels.get(row.machine, row.machine)
    versions = f"between {row.before_label} and {row.after_label}"
    text = f"{row.workload} on {row.rung}: {row.metric} {change} {versions} ({machine})"
    return {
        "text": f"{text} {address}".strip(),
        "regression": row.id,
        "workload": row.workload,
        "rung": row.rung,
        "metric": row.metric,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "before": {"record": row.before_record, "label": row.before_label, "value": row.before},
        "after": {"record": row.after_record, "label": row.after_label, "value": row.after},
        "machine": machine,
        "url": address,
    }


def _post(webhook: str, message: dict[str, object]) -> bool:
    request = urllib.request.Request(
        webhook, json.dumps(message).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    opener = opener_without_redirects()
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return 200 <= int(answer.status) < 300
    except (OSError, urllib.error.HTTPError, ValueError):
        return False
