package main

import (
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// At most so many broken forms of one object are tried.
const mostBroken = 6

// Forms of a valid object that the schema refuses: something required is missing, a value is of another type.
func (j *judge) broken(object map[string]any) []map[string]any {
	var found []map[string]any
	keep := func(change func(root map[string]any)) {
		root := runtime.DeepCopyJSON(object)
		change(root)
		if bySchema, _ := j.errors(root); len(bySchema) > 0 && len(found) < mostBroken {
			found = append(found, root)
		}
	}
	j.walk(j.schema, nil, object, keep)
	return found
}

type step any

// Breaks what is deep before what is not.
func (j *judge) walk(schema *structural.Structural, path []step, value any, keep func(func(map[string]any))) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range sorted(schema.Properties) {
			if inner, there := value[name]; there && !isHead(name) {
				property := schema.Properties[name]
				j.walk(&property, append(slices.Clone(path), name), inner, keep)
			}
		}
		for _, name := range required(schema) {
			if len(path) == 0 && isHead(name) {
				continue
			}
			keep(func(root map[string]any) {
				if parent, is := find(root, path).(map[string]any); is {
					delete(parent, name)
				}
			})
		}
	case []any:
		if schema.Items != nil && len(value) > 0 {
			j.walk(schema.Items, append(slices.Clone(path), 0), value[0], keep)
		}
	}
	if len(path) > 0 {
		keep(func(root map[string]any) { replace(root, path, other(schema)) })
	}
}

// A value of a type that the schema does not name.
func other(schema *structural.Structural) any {
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
