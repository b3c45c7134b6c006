#!/usr/bin/env python3
"""Asks a kube-apiserver what the cases in these files ask, and writes its answers into them.

Usage: KUBECONFIG=... record.py [file.json ...]

The server has to be fresh (names are used again) and without a controller manager, which would change objects in
between: `cargo run -p peers --example kubernetes`, then end its kube-controller-manager. The ServiceAccount `default`
has to be there.

A file is a list of cases, a case is {"case": name, "steps": [{"do": "METHOD path", "body": .., "code": .., "answer":
..}]}. Methods are those of HTTP, and for patches their kind: merge, json, strategic. What differs from run to run is
replaced: UIDs, times, addresses from the Services' range, random ports.
"""

import base64, json, pathlib, re, ssl, subprocess, sys, tempfile, urllib.request

PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS = re.compile(r"\b10\.96\.\d+\.\d+\b")


def connect():
    view = subprocess.check_output(["kubectl", "config", "view", "--raw", "-o", "json"])
    config = json.loads(view)
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return cluster["server"], context


def ask(server, context, do, body):
    method, path = do.split(" ", 1)
    request = urllib.request.Request(
        server + path,
        method="PATCH" if method in PATCHES else method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": PATCHES.get(method, "application/json")},
    )
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def same(value, asked):
    """The value without what differs from run to run; what was asked for stays."""
    if isinstance(value, dict):
        return {
            key: same(entry, asked)
            for key, entry in value.items()
            if key not in ("managedFields", "resourceVersion", "selfLink")
        }
    if isinstance(value, list):
        return [same(entry, asked) for entry in value]
    if isinstance(value, str):
        value = UID.sub("<uid>", TIME.sub("<time>", value))
        return ADDRESS.sub(lambda found: found[0] if found[0] in asked else "<address>", value)
    if isinstance(value, int) and 30000 <= value <= 32767 and str(value) not in asked:
        return "<port>"
    return value


def written(cases):
    """A line for each step."""
    text = lambda value: json.dumps(value, ensure_ascii=False)
    blocks = []
    for case in cases:
        steps = ",\n".join("  " + text(step) for step in case["steps"])
        blocks.append('{"case": ' + text(case["case"]) + ', "steps": [\n' + steps + "\n]}")
    return "[\n" + ",\n".join(blocks) + "\n]\n"


def main():
    server, context = connect()
    here = pathlib.Path(__file__).parent
    for path in map(pathlib.Path, sys.argv[1:]) if sys.argv[1:] else sorted(here.glob("*.json")):
        cases = json.loads(path.read_text())
        for case in cases:
            asked = json.dumps([step.get("body") for step in case["steps"]])
            for step in case["steps"]:
                code, answer = ask(server, context, step["do"], step.get("body"))
                step["code"], step["answer"] = code, same(answer, asked)
        path.write_text(written(cases))


main()
