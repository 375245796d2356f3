package main

import (
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// The maximum number of invalid variants of one object.
const maxInvalid = 6

// invalidVariants returns variants of a valid object that the schema rejects: without a required field, or with a value of
// another type.
func (o *oracle) invalidVariants(object map[string]any) []map[string]any {
	var found []map[string]any
	try := func(change func(root map[string]any)) {
		root := runtime.DeepCopyJSON(object)
		change(root)
		if bySchema, _ := o.errors(root); len(bySchema) > 0 && len(found) < maxInvalid {
			found = append(found, root)
		}
	}
	o.walk(o.schema, nil, object, try)
	return found
}

type step any

// walk tries nested fields before outer ones.
func (o *oracle) walk(schema *structural.Structural, path []step, value any, try func(func(map[string]any))) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range sorted(schema.Properties) {
			if inner, exists := value[name]; exists && !isMeta(name) {
				property := schema.Properties[name]
				o.walk(&property, append(slices.Clone(path), name), inner, try)
			}
		}
		for _, name := range required(schema) {
			if len(path) == 0 && isMeta(name) {
				continue
			}
			try(func(root map[string]any) {
				if parent, ok := find(root, path).(map[string]any); ok {
					delete(parent, name)
				}
			})
		}
	case []any:
		if schema.Items != nil && len(value) > 0 {
			o.walk(schema.Items, append(slices.Clone(path), 0), value[0], try)
		}
	}
	if len(path) > 0 {
		try(func(root map[string]any) { replace(root, path, wrongType(schema)) })
	}
}

// wrongType returns a value of a type that the schema does not allow.
func wrongType(schema *structural.Structural) any {
	if schema.Type == "string" || schema.XIntOrString {
		return []any{true}
	}
	return "wrong"
}

func find(root any, path []step) any {
	for _, step := range path {
		switch at := step.(type) {
		case string:
			root = root.(map[string]any)[at]
		case int:
			root = root.([]any)[at]
		}
	}
	return root
}

func replace(root map[string]any, path []step, value any) {
	parent := find(root, path[:len(path)-1])
	switch last := path[len(path)-1].(type) {
	case string:
		parent.(map[string]any)[last] = value
	case int:
		parent.([]any)[last] = value
	}
}
