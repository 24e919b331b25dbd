package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one setting of the struct being filled.
type field struct {
	key, usage string
	value      reflect.Value // settable
	oneOf      []string
	low, high  string // as written in the tag; "" = open
}

// fieldsOf lists the settings of a struct. A field that cannot be one, or two with one name, is a programmer's error and panics.
func fieldsOf(v reflect.Value) []*field {
	var out []*field
	for i := range v.NumField() {
		kind, value := v.Type().Field(i), v.Field(i)
		key, tagged := kind.Tag.Lookup("koanf")
		key, _, _ = strings.Cut(key, ",")
		switch {
		case kind.Anonymous && kind.Type.Kind() == reflect.Struct && key == "":
			for _, f := range fieldsOf(value) {
				f.usage = cmp.Or(kind.Tag.Get("usage-"+f.key), f.usage)
				out = append(out, f)
			}
			continue
		case !tagged || key == "-":
			continue
		case !kind.IsExported():
			panic(fmt.Sprintf("config: field %s of %s is not exported", kind.Name, v.Type()))
		}
		f := &field{key: key, usage: kind.Tag.Get("usage"), value: value}
		if words := kind.Tag.Get("oneof"); words != "" {
			f.oneOf = strings.Split(words, "|")
		}
		f.low, f.high, _ = strings.Cut(kind.Tag.Get("range"), "..")
		_ = f.typeName() // panics where the type cannot be a setting
		out = append(out, f)
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.key] {
			panic(fmt.Sprintf("config: two fields of %s are %q", v.Type(), f.key))
		}
		seen[f.key] = true
	}
	return out
}

// typeName is what --help shows.
func (f *field) typeName() string {
	switch f.value.Addr().Interface().(type) {
	case *time.Duration:
		return "duration"
	case *Bytes:
		return "size"
	case *Secret:
		return "secret"
	case *[]string:
		return "list"
	case encoding.TextUnmarshaler:
		return "string"
	}
	switch f.value.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float64:
		return "number"
	default:
		panic(fmt.Sprintf("config: %q cannot be a %s", f.key, f.value.Type()))
	}
}

// String gives the value as it would be written.
func (f *field) String() string { return format(f.value) }

func format(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case []string:
		return strings.Join(value, ",")
	case time.Duration:
		return value.String()
	}
	if m, ok := v.Addr().Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v.Interface())
}

// set reads text, checks it against the field's bounds and stores it.
func (f *field) set(text string) error {
	parsed := reflect.New(f.value.Type()).Elem()
	if err := parse(parsed, text); err != nil {
		return err
	}
	if err := f.check(parsed); err != nil {
		return err
	}
	f.value.Set(parsed)
	return nil
}

func (f *field) check(v reflect.Value) error {
	if len(f.oneOf) > 0 {
		for _, word := range f.oneOf {
			if format(v) == word {
				return nil
			}
		}
		return fmt.Errorf("none of %s", strings.Join(f.oneOf, ", "))
	}
	if f.outside(v, f.low, -1) || f.outside(v, f.high, +1) {
		return fmt.Errorf("outside %s..%s", f.low, f.high)
	}
	return nil
}

// outside tells whether v lies beyond the bound, on the side of sign. A bound that does not parse is a programmer's error and panics.
func (f *field) outside(v reflect.Value, bound string, sign int) bool {
	if bound == "" {
		return false
	}
	limit := reflect.New(v.Type()).Elem()
	if err := parse(limit, bound); err != nil {
		panic(fmt.Sprintf("config: bound %q of %q: %v", bound, f.key, err))
	}
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), limit.Int()) == sign
	case v.CanUint():
		return cmp.Compare(v.Uint(), limit.Uint()) == sign
	case v.CanFloat():
		return cmp.Compare(v.Float(), limit.Float()) == sign
	default:
		panic(fmt.Sprintf("config: %q has a range and is a %s", f.key, v.Type()))
	}
}

func parse(v reflect.Value, text string) error {
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("not a duration such as 500ms, 10s, 24h")
		}
		*target = d
		return nil
	case *[]string:
		*target = nil
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*target = append(*target, part)
			}
		}
		return nil
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(text))
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("not true or false")
		}
		v.SetBool(b)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return errors.New("not a whole number in range")
		}
		v.SetInt(n)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return errors.New("not a whole number from 0 up in range")
		}
		v.SetUint(n)
	case v.CanFloat():
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("not a number")
		}
		v.SetFloat(n)
	}
	return nil
}
