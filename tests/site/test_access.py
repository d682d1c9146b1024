"""Who may read and write: tokens that nobody can read again, projects, forms of other sites."""

from typing import Any

import pytest
import sqlalchemy as sa
from builders import make_case, make_record
from sites import bearer, client_of, own_record, token_of, upload

from tare.errors import BadInput
from tare.site.access import PREFIX, create_token, find_reader, list_tokens, read_audit, revoke_token
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import Regression, notes_of, save
from tare.system.redaction import redact


def test_a_token_is_kept_as_a_digest(store: Store) -> None:
    token = create_token(store, "bench", "lab", may_write=True)
    assert token.startswith(PREFIX)
    assert len(token) > 40
    (row,) = store.rows(sa.select(schema.tokens))
    assert token not in " ".join(map(str, row))
    assert token.removeprefix(PREFIX) not in " ".join(map(str, row))
    holder = find_reader(store, token)
    assert holder is not None
    assert (holder.name, holder.project, holder.may_write) == ("bench", "lab", True)
    for wrong in (token + "x", token[:-1], token.upper(), "", "x" * 5000, "tare_"):
        assert find_reader(store, wrong) is None
    assert "***" in redact(f"the token {token} leaked")
    assert token not in redact(f"the token {token} leaked")


def test_a_revoked_token_is_none(store: Store) -> None:
    token = create_token(store, "bench")
    with pytest.raises(BadInput, match="there is a token 'bench' already"):
        create_token(store, "bench")
    revoke_token(store, "bench")
    assert find_reader(store, token) is None
    with pytest.raises(BadInput, match="unknown token 'bench'"):
        revoke_token(store, "bench")
    again = create_token(store, "bench")
    assert find_reader(store, again) is not None
    assert [entry["revoked"] is None for entry in list_tokens(store)] == [False, True]
    for name in ("", "x" * 81, "a\nb"):
        with pytest.raises(BadInput, match="token"):
            create_token(store, name)


def test_uploading_takes_a_token_that_may_write(store: Store) -> None:
    reading, writing = token_of(store, "reads", may_write=False), token_of(store, "writes")
    with client_of(store) as client:
        assert upload(client, "", own_record()).status_code == 401
        assert upload(client, "tare_nonsense", own_record()).status_code == 401
        assert upload(client, reading, own_record()).status_code == 403
        assert store.find() == []
        assert upload(client, writing, own_record()).json()["new"] == 1
        # A cookie is sent by browsers for anybody's form: it does not upload.
        client.cookies.set("tare-token", writing)
        assert client.post("/api/v1/upload", content=b"{}").status_code == 401
    assert [(entry["token"], entry["action"]) for entry in read_audit(store)] == [("writes", "upload")]


def test_reading_by_token_shows_its_project_alone(store: Store) -> None:
    tokens = {name: token_of(store, name, project) for name, project in (("a", "lab"), ("b", "shop"), ("all", ""))}
    with client_of(store, read="token") as client:
        upload(client, tokens["a"], own_record(0))
        upload(client, tokens["b"], make_record(make_case(workload="lstm"), id="shop0", run="shoprun"))
        for path in ("/", "/workloads/", "/records/own0/", "/runs/data.json", "/grid/data-grid.csv"):
            assert client.get(path).status_code == 401
        assert client.get("/health").status_code == 200
        assert client.get("/static/page.css").status_code == 200

        def seen(token: str, path: str) -> Any:
            return client.get(path, headers=bearer(token))

        assert "lstm" not in seen(tokens["a"], "/workloads/").text
        assert "mlp" in seen(tokens["a"], "/workloads/").text
        assert "mlp" not in seen(tokens["b"], "/workloads/").text
        for path in ("/records/own0/", "/records/own0/record.json", "/runs/ownrun/", "/workloads/mlp/"):
            assert seen(tokens["a"], path).status_code == 200, path
            assert seen(tokens["b"], path).status_code == 404, path
            assert seen(tokens["all"], path).status_code == 200, path
        for page in ("runs", "machines", "coverage", "grid"):
            assert "own0" not in seen(tokens["b"], f"/{page}/").text
        assert seen(tokens["b"], "/search/?q=own0").text.count("own0") <= 3
        assert "records/own0" not in seen(tokens["b"], "/search/?q=own0").text
        assert seen(tokens["b"], "/compare/?a=ownrun&b=ownrun").status_code == 400


def test_a_run_belongs_to_the_project_that_uploaded_it(store: Store) -> None:
    first, second = token_of(store, "a", "lab"), token_of(store, "b", "shop")
    with client_of(store) as client:
        assert upload(client, first, own_record(0)).status_code == 200
        answer = upload(client, second, own_record(1))
        assert answer.status_code == 400
        assert "another project" in answer.json()["error"]
        answer = client.post("/api/v1/upload", content=b'{"explanations":{"own0":{}}}', headers=bearer(second))
        assert answer.status_code == 400
        assert client.post("/api/v1/traces/own0", content=b"\x1f\x8b", headers=bearer(second)).status_code == 400
    assert [record.id for record in store.find()] == ["own0"]


@pytest.fixture
def regression(store: Store) -> str:
    store.add([own_record(0), own_record(0, id="later", run="later", steps_s=(2e-3,))])
    found = Regression(
        series=store.rows(sa.select(schema.series.c.id))[0].id, metric="gross", source="check", found="2026-01-01",
        before_record="own0", after_record="later", before_date="2026-01-01", after_date="2026-01-02",
        before_label="a", after_label="b", before=1e-3, after=2e-3, ratio=2.0, low=1.9, high=2.1,
    )  # fmt: skip
    with store.transaction() as connection:
        save(connection, found)
    return found.id


def test_signing_in_lets_a_reader_write_notes(store: Store, regression: str) -> None:
    token = token_of(store, "ada")
    form = {"state": "explained", "owner": "ada", "text": "a new driver"}
    with client_of(store) as client:
        path = f"/regressions/{regression}/"
        assert "<textarea" not in client.get(path).text
        assert client.post(path, data=form).status_code == 403
        assert client.post("/login/", data={"token": "tare_wrong"}).status_code == 403
        answer = client.post("/login/", data={"token": token}, follow_redirects=False)
        cookie = answer.headers["set-cookie"]
        assert answer.status_code == 303
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "<textarea" in client.get(path).text
        assert "signed in as ada" in client.get(path).text
        assert client.post(path, data=form).status_code == 200
        shown = client.get(path).text
        assert "a new driver" in shown
        assert "explained" in shown
        for origin in ("http://evil.example", "null"):
            assert client.post(path, data=form, headers={"Origin": origin}).status_code == 403
        assert client.post(path, data=form, headers={"Origin": "http://testserver"}).status_code == 200
        assert client.post(path, data={**form, "state": "gone"}).status_code == 400
        assert client.post(path, data={**form, "text": "x" * 5000}).status_code == 400
        assert client.post(path, content=b"x" * 200_000).status_code == 413
        client.post("/login/", data={"token": ""})
        assert "<textarea" not in client.get(path).text
    assert [note.author for note in notes_of(store, [regression])[regression]] == ["ada", "ada"]
    assert {entry["action"] for entry in read_audit(store)} == {"annotate"}


def test_a_reader_without_writing_sees_no_form(store: Store, regression: str) -> None:
    token = token_of(store, "eve", may_write=False)
    with client_of(store) as client:
        client.post("/login/", data={"token": token})
        assert "<textarea" not in client.get(f"/regressions/{regression}/").text
        assert client.post(f"/regressions/{regression}/", data={"state": "fixed"}).status_code == 403


def test_every_answer_has_the_headers(store: Store) -> None:
    with client_of(store) as client:
        for path in ("/", "/nothing/", "/static/page.js", "/runs/data.json", "/api/v1/upload"):
            headers = client.get(path).headers
            assert "script-src 'self'" in headers["content-security-policy"], path
            assert "'unsafe-inline'" not in headers["content-security-policy"].partition("style-src")[0]
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers
