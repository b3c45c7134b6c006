// Writes the facts about Kubernetes' protobuf format that the crate needs, and samples to test it with, from the
// tags on upstream's Go types. Run `go run .` here after a new version in go.mod; the results are committed.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// One field: [number, name in JSON, type, flags]. The flags are described in src/proto/table.rs.
type field [4]any

var (
	messages = map[string][]field{}
	kinds    = map[string]map[string]string{}
)

// Types whose JSON is not that of their fields: the crate has code for each.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "Json",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "RawExtension",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

func main() {
	for _, kind := range allKinds() {
		t := reflect.TypeOf(kind.object).Elem()
		if kinds[kind.apiVersion] == nil {
			kinds[kind.apiVersion] = map[string]string{}
		}
		kinds[kind.apiVersion][t.Name()] = message(t)
	}
	must(os.WriteFile("../protobuf.json", table(), 0o644))
	must(os.WriteFile("../builtin-empty.json", empties(), 0o644))
	must(os.WriteFile("../../tests/data/protobuf.json", vectors(), 0o644))
}

// The name of a message in the table: `core.v1.Pod`.
func nameOf(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(append(parts[len(parts)-2:], t.Name()), ".")
}

func qualified(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// Adds a struct, and all that it reaches, to the table.
func message(t reflect.Type) string {
	name := nameOf(t)
	if _, done := messages[name]; done {
		return name
	}
	messages[name] = nil
	fields := []field{}
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		proto := tag.Get("protobuf")
		if proto == "" || proto == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(proto, ",")[1])
		must(err)
		json := strings.Split(tag.Get("json"), ",")
		kind, flags := typeOf(t.Field(i).Type)
		for _, option := range json[1:] {
			flags += map[string]string{"omitempty": "e", "omitzero": "z", "inline": "i"}[option]
		}
		fields = append(fields, field{number, json[0], kind, flags})
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a][0].(int) < fields[b][0].(int) })
	messages[name] = fields
	return name
}

// The type's name in the table, and the flags that come from it.
func typeOf(t reflect.Type) (string, string) {
	switch {
	case t.Kind() == reflect.Pointer:
		name, flags := typeOf(t.Elem())
		return name, flags + "p"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "bytes", ""
	// A named list of strings is a message with one repeated field.
	case t.Kind() == reflect.Slice && (t.Name() == "ExtraValue" || t.Name() == "Verbs"):
		return "Strings", ""
	case t.Kind() == reflect.Slice:
		name, flags := typeOf(t.Elem())
		return name, flags + "r"
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		name, flags := typeOf(t.Elem())
		return name, flags + "k"
	case t.Kind() == reflect.Struct && special[qualified(t)] != "":
		for i := range t.NumField() {
			inner := t.Field(i).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Name() == "JSONSchemaProps" {
				message(inner)
			}
		}
		return special[qualified(t)], ""
	case t.Kind() == reflect.Struct && t.Name() != "Duration":
		return message(t), ""
	}
	scalar, known := map[reflect.Kind]string{
		reflect.Bool: "bool", reflect.String: "string", reflect.Float64: "double",
		reflect.Int32: "int32", reflect.Int64: "int64", reflect.Int: "int64",
	}[t.Kind()]
	if !known {
		panic(fmt.Sprintf("no name for %v", t))
	}
	return scalar, ""
}

// Sorted, one message on a line, so that a diff shows what upstream has changed.
func table() []byte {
	var out bytes.Buffer
	out.WriteString("{\"kinds\":{\n")
	lines(&out, kinds)
	out.WriteString("},\"messages\":{\n")
	lines(&out, messages)
	out.WriteString("}}\n")
	return out.Bytes()
}

func lines[V any](out *bytes.Buffer, entries map[string]V) {
	keys := make([]string, 0, len(entries))
	for key := range entries {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for i, key := range keys {
		value, err := json.Marshal(entries[key])
		must(err)
		fmt.Fprintf(out, "%q:%s", key, value)
		if i+1 < len(keys) {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
