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

// The maximum depth of generated objects; schemas may be recursive.
const maxDepth = 12

// object returns an object with all required fields and each optional field with which it stays valid, and whether it is
// valid.
func (o *oracle) object() (map[string]any, bool) {
	object := runtime.DeepCopyJSON(o.typeAndMeta)
	for name := range o.schema.Properties {
		if isMeta(name) {
			continue
		}
		if name == "spec" || slices.Contains(required(o.schema), name) {
			property := o.schema.Properties[name]
			object[name] = value(&property, 0)
		}
	}
	valid := o.isValid(object)
	for _, optional := range sorted(o.schema.Properties) {
		property := o.schema.Properties[optional]
		if isMeta(optional) || optional == "status" {
			continue
		}
		fields, isMap := object[optional].(map[string]any)
		if !isMap {
			valid = o.try(object, []string{optional}, &property, valid)
			continue
		}
		for _, name := range sorted(property.Properties) {
			if _, exists := fields[name]; !exists {
				inner := property.Properties[name]
				valid = o.try(object, []string{optional, name}, &inner, valid)
			}
		}
	}
	return object, valid
}

// try adds a field if the object is valid with it. It returns whether the object is valid now.
func (o *oracle) try(object map[string]any, path []string, schema *structural.Structural, valid bool) bool {
	with := runtime.DeepCopyJSON(object)
	parent := with
	for _, name := range path[:len(path)-1] {
		parent = parent[name].(map[string]any)
	}
	parent[path[len(path)-1]] = value(schema, 0)
	if !o.isValid(with) {
		return valid
	}
	for name, value := range with {
		object[name] = value
	}
	return true
}

// isMeta reports whether a top-level field is type or object metadata, to which no schema applies.
func isMeta(name string) bool {
	return name == "metadata" || name == "kind" || name == "apiVersion"
}

// required returns the required fields, with the first alternative of anyOf and oneOf.
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

// value returns a small value that the schema allows, as far as the schema alone determines one.
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
	fields := map[string]any{}
	if schema.XEmbeddedResource {
		fields["apiVersion"], fields["kind"] = "v1", "ConfigMap"
		fields["metadata"] = map[string]any{"name": "inner"}
	}
	if depth < maxDepth {
		for _, name := range required(schema) {
			if property, known := schema.Properties[name]; known {
				fields[name] = value(&property, depth+1)
			}
		}
	}
	rules := schema.ValueValidation
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
		for i := int64(0); i < max(1, limitOf(rules, func(r *structural.ValueValidation) *int64 { return r.MinProperties })); i++ {
			fields[fmt.Sprintf("key%d", i)] = value(schema.AdditionalProperties.Structural, depth+1)
		}
	}
	return fields
}

func list(schema *structural.Structural, depth int) any {
	items := []any{}
	least := limitOf(schema.ValueValidation, func(r *structural.ValueValidation) *int64 { return r.MinItems })
	if schema.Items == nil || depth >= maxDepth {
		return items
	}
	for i := int64(0); i < max(1, least); i++ {
		items = append(items, value(schema.Items, depth+1))
	}
	return items
}

func number(rules *structural.ValueValidation) float64 {
	if rules == nil {
		return 1
	}
	result := 1.0
	if rules.Minimum != nil && result < *rules.Minimum {
		result = *rules.Minimum
	}
	if rules.Maximum != nil && result > *rules.Maximum {
		result = *rules.Maximum
	}
	if rules.ExclusiveMinimum && rules.Minimum != nil && result == *rules.Minimum {
		result++
	}
	if rules.MultipleOf != nil && *rules.MultipleOf > 0 {
		result = math.Ceil(result / *rules.MultipleOf) * *rules.MultipleOf
	}
	return result
}

// Examples of the formats in the schemas.
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
	least := int(limitOf(rules, func(r *structural.ValueValidation) *int64 { return r.MinLength }))
	if pattern == "" {
		return strings.Repeat("a", max(1, least))
	}
	return matching(pattern, least)
}

// matching returns a string that matches the pattern: a common one if possible, else one generated from the pattern.
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
	return generate(parsed.Simplify(), least)
}

// generate returns a string that the expression matches: the first alternative, the fewest repetitions.
func generate(expression *syntax.Regexp, least int) string {
	switch expression.Op {
	case syntax.OpLiteral:
		return string(expression.Rune)
	case syntax.OpCharClass:
		return string(member(expression.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus:
		return generate(expression.Sub[0], least)
	case syntax.OpAlternate:
		return generate(expression.Sub[0], least)
	case syntax.OpStar:
		return strings.Repeat(generate(expression.Sub[0], 0), min(least, 64))
	case syntax.OpRepeat:
		return strings.Repeat(generate(expression.Sub[0], 0), expression.Min)
	case syntax.OpConcat:
		var all strings.Builder
		for _, sub := range expression.Sub {
			all.WriteString(generate(sub, max(0, least-all.Len())))
		}
		return all.String()
	}
	return ""
}

// member returns a character of the class, preferably a letter.
func member(class []rune) rune {
	for _, preferred := range []rune{'a', 'A', '1'} {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= preferred && preferred <= class[i+1] {
				return preferred
			}
		}
	}
	return class[0]
}

func limitOf(rules *structural.ValueValidation, limit func(*structural.ValueValidation) *int64) int64 {
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
