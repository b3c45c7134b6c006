package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type vector struct {
	Name     string          `json:"name"`
	Json     json.RawMessage `json:"json"`
	Protobuf string          `json:"protobuf"`
}

// Each kind twice: with nothing set, and with everything set. A message is filled where it is met first and left
// empty elsewhere, which keeps the file small and shows what empty messages look like inside of others.
func vectors() []byte {
	all := []vector{watchEvent()}
	filler := &filler{filled: map[reflect.Type]bool{}}
	list := allKinds()
	sort.Slice(list, func(a, b int) bool { return label(list[a]) < label(list[b]) })
	for _, kind := range list {
		// Frames of a watch have no envelope; there is one above.
		if _, frame := kind.object.(*metav1.WatchEvent); frame {
			continue
		}
		if kind.apiVersion == "*" {
			kind.apiVersion = "v1"
		}
		all = append(all, sample(label(kind)+" empty", kind.apiVersion, kind.object))
		filler.fill(reflect.ValueOf(kind.object).Elem(), 0)
		all = append(all, sample(label(kind)+" full", kind.apiVersion, kind.object))
	}
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, one := range all {
		line, err := json.Marshal(one)
		must(err)
		out.Write(line)
		if i+1 < len(all) {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return out.Bytes()
}

func label(kind kind) string {
	return kind.apiVersion + " " + reflect.TypeOf(kind.object).Elem().Name()
}

func sample(name, apiVersion string, object any) vector {
	typed := object.(marshaler)
	gv, err := schema.ParseGroupVersion(apiVersion)
	must(err)
	typed.GetObjectKind().SetGroupVersionKind(gv.WithKind(reflect.TypeOf(object).Elem().Name()))
	text, err := json.Marshal(typed)
	must(err)
	return vector{name, text, base64.StdEncoding.EncodeToString(enveloped(typed))}
}

func enveloped(object runtime.Object) []byte {
	scheme := runtime.NewScheme()
	var wire bytes.Buffer
	must(protobuf.NewSerializer(scheme, scheme).Encode(object, &wire))
	return wire.Bytes()
}

// One frame of a watch, as the bytes go over the wire.
func watchEvent() vector {
	object := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"},
	}
	text, err := json.Marshal(metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: object}})
	must(err)
	scheme := runtime.NewScheme()
	var event, wire bytes.Buffer
	raw := &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: enveloped(object)}}
	must(protobuf.NewRawSerializer(scheme, scheme).Encode(raw, &event))
	_, err = protobuf.LengthDelimitedFramer.NewFrameWriter(&wire).Write(event.Bytes())
	must(err)
	return vector{"watch frame", text, base64.StdEncoding.EncodeToString(wire.Bytes())}
}

type filler struct {
	filled map[reflect.Type]bool
	count  int
}

func (f *filler) next() int { f.count++; return f.count }

// Sets what the value can hold; depth ends the recursion of types that hold themselves.
func (f *filler) fill(v reflect.Value, depth int) {
	if f.fillSpecial(v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Struct:
		if f.filled[v.Type()] {
			return
		}
		f.filled[v.Type()] = true
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("protobuf") != "" {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 0xff, byte(f.next())})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), depth)
		f.fill(v.Index(1), depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth)
			f.fill(value, depth)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("é%x", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(f.next()) / 2)
	default:
		// Negative and large ones too.
		v.SetInt(int64(f.next()*77777) * int64(1-2*(f.count%2)))
	}
}

func (f *filler) fillSpecial(v reflect.Value, depth int) bool {
	n := f.count
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		value.Time = time.Unix(int64(f.next())*100000, 0).UTC()
	case *metav1.MicroTime:
		value.Time = time.Unix(int64(f.next())*100000, 123456000).UTC()
	case *resource.Quantity:
		*value = resource.MustParse(fmt.Sprintf("%dMi", 1+2*f.next()))
	case *intstr.IntOrString:
		*value = []intstr.IntOrString{intstr.FromInt32(int32(f.next())), intstr.FromString("50%")}[n%2]
	case *metav1.FieldsV1:
		value.Raw = []byte(`{"f:metadata":{"f:labels":{}}}`)
	case *runtime.RawExtension:
		value.Raw = []byte(fmt.Sprintf(`{"raw":%d}`, f.next()))
	case *apiextensionsv1.JSON:
		value.Raw = []byte([]string{`"text"`, `{"a":[1,null]}`, `false`}[f.next()%3])
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		// A schema beside "allows" would say twice that it allows.
		*value = apiextensionsv1.JSONSchemaPropsOrBool{Allows: f.next()%2 == 0}
		if value.Allows && n%4 == 3 {
			value.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		one := apiextensionsv1.JSONSchemaProps{Type: "object"}
		if f.next()%2 == 0 {
			value.Schema = &one
		} else {
			value.JSONSchemas = []apiextensionsv1.JSONSchemaProps{one, {}}
		}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		if f.next()%2 == 0 {
			value.Schema = &apiextensionsv1.JSONSchemaProps{Type: "integer"}
		} else {
			value.Property = []string{"a", "b"}
		}
	default:
		return false
	}
	return true
}
