#!/usr/bin/env python3
"""Writes builtin-types.json: the structure of the kinds that are built in, and of every type that they reach.

    go mod download k8s.io/kubernetes@v1.34.4
    python3 generate.py "$(go env GOMODCACHE)/k8s.io/kubernetes@v1.34.4" > builtin-types.json

Facts only, out of Kubernetes' published OpenAPI v3 documents: no descriptions. Of a type:
  kinds      the group, version and kind that it is
  type       what it is if it has no fields: string, integer, ... int-or-string, any
  format     such as date-time
  fields     by name; a field has one of  ref | list | map  (of a shape), or type and format, and
             listType, listMapKeys, mapType, patchStrategy, patchMergeKey, default
             (a default that is the type's zero says nothing and is left out)
  required   names of fields
  mapType    atomic, if the type is one value to server-side apply
"""
import glob
import json
import os
import sys

KINDS = {
    "v1": "Namespace Secret ConfigMap ServiceAccount Event Node Pod Service Endpoints PersistentVolume "
    "PersistentVolumeClaim Binding",
    "events.k8s.io/v1": "Event",
    "coordination.k8s.io/v1": "Lease",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "authentication.k8s.io/v1": "TokenReview TokenRequest SelfSubjectReview",
    "authorization.k8s.io/v1": "SubjectAccessReview LocalSubjectAccessReview SelfSubjectAccessReview "
    "SelfSubjectRulesReview",
    "batch/v1": "Job",
    "policy/v1": "PodDisruptionBudget Eviction",
    "apps/v1": "Deployment DaemonSet",
    "autoscaling/v1": "Scale",
    "discovery.k8s.io/v1": "EndpointSlice",
    "storage.k8s.io/v1": "VolumeAttachment",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
}
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
COPIED = {
    "x-kubernetes-list-type": "listType",
    "x-kubernetes-list-map-keys": "listMapKeys",
    "x-kubernetes-map-type": "mapType",
    "x-kubernetes-patch-merge-key": "patchMergeKey",
}


def definitions(module):
    found = {}
    for path in sorted(glob.glob(os.path.join(module, "api/openapi-spec/v3/*.json"))):
        with open(path, encoding="utf-8") as file:
            found.update(json.load(file).get("components", {}).get("schemas", {}))
    return found


def shape(schema):
    if "allOf" in schema:
        return shape(schema["allOf"][0])
    if "$ref" in schema:
        return {"ref": schema["$ref"].rsplit("/", 1)[1]}
    if schema.get("type") == "array":
        return {"list": shape(schema["items"])}
    if "additionalProperties" in schema:
        return {"map": shape(schema["additionalProperties"])}
    if schema.get("format") == "int-or-string":
        return {"type": "int-or-string"}
    if "type" not in schema or schema["type"] == "object":
        return {"type": "any"}
    plain = {"type": schema["type"]}
    if "format" in schema:
        plain["format"] = schema["format"]
    return plain


def field(schema):
    result = shape(schema)
    for theirs, ours in COPIED.items():
        if theirs in schema:
            result[ours] = schema[theirs]
    if "x-kubernetes-patch-strategy" in schema:
        result["patchStrategy"] = schema["x-kubernetes-patch-strategy"].split(",")
    if schema.get("default") not in (None, "", 0, False, {}, []):
        result["default"] = schema["default"]
    return result


def kinds(name, schema):
    # The options and Status of every group are the one of meta.
    for kind in schema.get("x-kubernetes-group-version-kind", []):
        if name.startswith(META) and kind["group"] != "":
            continue
        yield {key: kind[key] for key in ("group", "version", "kind")}


def described(name, schema):
    result = {}
    known = list(kinds(name, schema))
    if known:
        result["kinds"] = known
    if name.endswith(".Quantity"):
        result.update({"type": "string", "format": "quantity"})
    elif "properties" in schema:
        result["fields"] = {key: field(value) for key, value in schema["properties"].items()}
        if schema.get("required"):
            result["required"] = sorted(schema["required"])
    else:
        result.update(shape(schema))
    if "x-kubernetes-map-type" in schema:
        result["mapType"] = schema["x-kubernetes-map-type"]
    return result


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("ref"), str):
            yield value["ref"]
        for inner in value.values():
            yield from references(inner)


def roots(schemas):
    wanted = set()
    for version, names in KINDS.items():
        group, _, version = version.rpartition("/")
        for kind in names.split():
            wanted |= {(group, version, kind), (group, version, kind + "List")}
    for name, schema in schemas.items():
        if any((kind["group"], kind["version"], kind["kind"]) in wanted for kind in kinds(name, schema)):
            yield name
    for kind in ("Status", "DeleteOptions", "LabelSelector"):
        yield META + kind


def main():
    schemas = definitions(sys.argv[1])
    types, todo = {}, list(roots(schemas))
    while todo:
        name = todo.pop()
        if name not in types:
            types[name] = described(name, schemas[name])
            todo.extend(references(types[name]))
    version = sys.argv[1].rstrip("/").rsplit("@v", 1)[1]
    # One line a type: small, and a change of Kubernetes' version can be read in a diff.
    lines = [f'{json.dumps(name)}:{json.dumps(types[name], sort_keys=True, separators=(",", ":"))}' for name in sorted(types)]
    print(f'{{"kubernetes":{json.dumps(version)},"types":{{\n' + ",\n".join(lines) + "\n}}")


main()
