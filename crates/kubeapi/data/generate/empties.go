package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sort"
	"strings"
)

// Each kind that is stored as it is written when nothing in it is set: fields without `omitempty` show.
func empties() []byte {
	lines := []string{}
	for _, kind := range allKinds() {
		name := reflect.TypeOf(kind.object).Elem().Name()
		object := marshal(kind.object)
		if kind.apiVersion == "*" || !bytes.Contains(object, []byte(`"metadata"`)) || strings.HasSuffix(name, "List") {
			continue
		}
		key := marshal(kind.apiVersion + ", Kind=" + name)
		lines = append(lines, string(key)+": "+string(object))
	}
	sort.Strings(lines)
	return []byte("{\n" + strings.Join(lines, ",\n") + "\n}\n")
}

func marshal(value any) []byte {
	text, err := json.Marshal(value)
	must(err)
	return text
}
