package main

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schemas may be nested without end; what is below is left out.
const deepest = 12

// A valid object: what must be there, and on top of it every optional field that keeps it valid.
func (j *judge) object() (map[string]any, bool) {
	object := runtime.DeepCopyJSON(j.head)
	for name := range j.schema.Properties {
		if isHead(name) {
			continue
		}
		if name == "spec" || slices.Contains(required(j.schema), name) {
			property := j.schema.Properties[name]
			object[name] = value(&property, 0)
		}
	}
	valid := j.isValid(object)
	for _, optional := range sorted(j.schema.Properties) {
		property := j.schema.Properties[optional]
		if isHead(optional) || optional == "status" {
			continue
		}
		fields, isMap := object[optional].(map[string]any)
		if !isMap {
			valid = j.try(object, []string{optional}, &property, valid)
			continue
		}
		for _, name := range sorted(property.Properties) {
			if _, there := fields[name]; !there {
				inner := property.Properties[name]
				valid = j.try(object, []string{optional, name}, &inner, valid)
			}
		}
	}
	return object, valid
}

// Adds a field, if the object is valid with it. Whether the object is valid now.
func (j *judge) try(object map[string]any, path []string, schema *structural.Structural, valid bool) bool {
	with := runtime.DeepCopyJSON(object)
	parent := with
	for _, name := range path[:len(path)-1] {
		parent = parent[name].(map[string]any)
	}
	parent[path[len(path)-1]] = value(schema, 0)
	if !j.isValid(with) {
		return valid
	}
	for name, value := range with {
		object[name] = value
	}
	return true
}

// What every object has, and no schema decides about.
func isHead(name string) bool {
	return name == "metadata" || name == "kind" || name == "apiVersion"
}

// What must be there, if the first of several alternatives is taken.
func required(schema *structural.Structural) []string {
	rules := schema.ValueValidation
	if rules == nil {
		return nil
	}
	names := slices.Clone(rules.Required)
	add := func(nested *structural.NestedValueValidation) { names = append(names, nested.Required...) }
	for i := range rules.AllOf {
		add(&rules.AllOf[i])
	}
	if len(rules.AnyOf) > 0 {
		add(&rules.AnyOf[0])
	}
	if len(rules.OneOf) > 0 {
		add(&rules.OneOf[0])
	}
	return names
}

// A small value that the schema allows, as far as one can be found by looking at it.
func value(schema *structural.Structural, depth int) any {
	if schema.Default.Object != nil {
		return runtime.DeepCopyJSONValue(schema.Default.Object)
	}
	if rules := schema.ValueValidation; rules != nil && len(rules.Enum) > 0 {
		return runtime.DeepCopyJSONValue(rules.Enum[0].Object)
	}
	if schema.XIntOrString {
		return int64(1)
	}
	switch schema.Type {
	case "object":
		return mapping(schema, depth)
	case "array":
		return list(schema, depth)
	case "string":
		return text(schema.ValueValidation)
	case "integer":
		return int64(math.Ceil(number(schema.ValueValidation)))
	case "number":
		return number(schema.ValueValidation)
	case "boolean":
		return true
	}
	return map[string]any{}
}

func mapping(schema *structural.Structural, depth int) any {
	made := map[string]any{}
	if schema.XEmbeddedResource {
		made["apiVersion"], made["kind"] = "v1", "ConfigMap"
		made["metadata"] = map[string]any{"name": "inner"}
	}
	if depth < deepest {
		for _, name := range required(schema) {
			if property, known := schema.Properties[name]; known {
				made[name] = value(&property, depth+1)
			}
		}
	}
	rules := schema.ValueValidation
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
		for i := int64(0); i < max(1, at(rules, func(r *structural.ValueValidation) *int64 { return r.MinProperties })); i++ {
			made[fmt.Sprintf("key%d", i)] = value(schema.AdditionalProperties.Structural, depth+1)
		}
	}
	return made
}

func list(schema *structural.Structural, depth int) any {
	made := []any{}
	least := at(schema.ValueValidation, func(r *structural.ValueValidation) *int64 { return r.MinItems })
	if schema.Items == nil || depth >= deepest {
		return made
	}
	for i := int64(0); i < max(1, least); i++ {
		made = append(made, value(schema.Items, depth+1))
	}
	return made
}

func number(rules *structural.ValueValidation) float64 {
	if rules == nil {
		return 1
	}
	found := 1.0
	if rules.Minimum != nil && found < *rules.Minimum {
		found = *rules.Minimum
	}
	if rules.Maximum != nil && found > *rules.Maximum {
		found = *rules.Maximum
	}
	if rules.ExclusiveMinimum && rules.Minimum != nil && found == *rules.Minimum {
		found++
	}
	if rules.MultipleOf != nil && *rules.MultipleOf > 0 {
		found = math.Ceil(found / *rules.MultipleOf) * *rules.MultipleOf
	}
	return found
}

// Examples of formats that the schemas name.
var formats = map[string]string{
	"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "duration": "5m", "uri": "https://example.com/a",
	"byte": "YQ==", "uuid": "0e8e3b0f-4b3a-4b0e-9d0f-0a1b2c3d4e5f", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"cidr": "192.0.2.0/24", "email": "a@example.com", "hostname": "example.com", "password": "secret", "mac": "00:00:5e:00:53:01",
}

func text(rules *structural.ValueValidation) string {
	if rules == nil {
		return "a"
	}
	if example, known := formats[rules.Format]; known {
		return example
	}
	pattern := rules.Pattern
	for i := range rules.AllOf {
		if pattern == "" {
			pattern = rules.AllOf[i].Pattern
		}
	}
	least := int(at(rules, func(r *structural.ValueValidation) *int64 { return r.MinLength }))
	if pattern == "" {
		return strings.Repeat("a", max(1, least))
	}
	return matching(pattern, least)
}

// Common texts come first, since they read well; the rest is made from the pattern.
func matching(pattern string, least int) string {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return "a"
	}
	candidates := []string{"a", "1", "5m", "a.b", "a/b", "https://example.com", "192.0.2.0/24", "v1", "A", "10Mi", "/a", "example.com"}
	for _, candidate := range candidates {
		if len(candidate) >= least && compiled.MatchString(candidate) {
			return candidate
		}
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "a"
	}
	return written(parsed.Simplify(), least)
}

// A text that an expression matches: the first alternative, the fewest repetitions.
func written(expression *syntax.Regexp, least int) string {
	switch expression.Op {
	case syntax.OpLiteral:
		return string(expression.Rune)
	case syntax.OpCharClass:
		return string(member(expression.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus:
		return written(expression.Sub[0], least)
	case syntax.OpAlternate:
		return written(expression.Sub[0], least)
	case syntax.OpStar:
		return strings.Repeat(written(expression.Sub[0], 0), min(least, 64))
	case syntax.OpRepeat:
		return strings.Repeat(written(expression.Sub[0], 0), expression.Min)
	case syntax.OpConcat:
		var all strings.Builder
		for _, sub := range expression.Sub {
			all.WriteString(written(sub, max(0, least-all.Len())))
		}
		return all.String()
	}
	return ""
}

// A letter of the class if it has one.
func member(class []rune) rune {
	for _, wanted := range []rune{'a', 'A', '1'} {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= wanted && wanted <= class[i+1] {
				return wanted
			}
		}
	}
	return class[0]
}

func at(rules *structural.ValueValidation, limit func(*structural.ValueValidation) *int64) int64 {
	if rules == nil || limit(rules) == nil {
		return 0
	}
	return *limit(rules)
}

func sorted(properties map[string]structural.Structural) []string {
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
