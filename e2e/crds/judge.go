package main

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of a real server, in the cost of the language of rules.
const (
	perCall   = 1000000
	perObject = 10000000
)

// What is said of a number that scale cannot read, besides what the schema says of it.
const unreadable = " accessor error: "

// Told besides by a real server whose rules in CEL were not looked at, since the schema was broken already.
const unchecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// Kubernetes' own judgement of the objects of one version, by its library.
type judge struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
	hasStatus bool
	// What every object of the version has.
	head map[string]any
}

// A refusal, as a server tells it.
type cause struct{ Type, Field, Message string }

// What is wrong with a definition, by the library's own rules.
func wrongIn(typed apiextensionsv1.CustomResourceDefinition) ([]cause, error) {
	filled := typed.DeepCopy()
	filled.Status.StoredVersions = nil
	apiextensionsv1.SetDefaults_CustomResourceDefinition(filled)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&filled.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(filled, internal, nil)
	if err != nil {
		return nil, err
	}
	return causes(definitions.ValidateCustomResourceDefinition(context.Background(), internal)), nil
}

func newJudge(definition apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion) (*judge, error) {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("no schema")
	}
	internal := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil)
	if err != nil {
		return nil, err
	}
	schema, err := structural.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	return &judge{
		schema:    schema,
		validator: validator,
		rules:     cel.NewValidator(schema, true, perCall),
		hasStatus: version.Subresources != nil && version.Subresources.Status != nil,
		head: map[string]any{
			"apiVersion": definition.Spec.Group + "/" + version.Name,
			"kind":       definition.Spec.Names.Kind,
			"metadata":   map[string]any{"name": "sample-" + version.Name},
		},
	}, nil
}

// The object as rules see it: without what the schema does not know, with its defaults.
func (j *judge) taken(object map[string]any) map[string]any {
	taken := runtime.DeepCopyJSON(object)
	pruning.Prune(taken, j.schema, true)
	defaulting.Default(taken, j.schema)
	return taken
}

// The object as it is shown once it is stored in the version of another judge. What that version fills in is shown
// only where this one knows it.
func (j *judge) stored(object map[string]any, as *judge) map[string]any {
	taken := j.taken(object)
	if j.hasStatus {
		delete(taken, "status")
	}
	shown := as.taken(taken)
	pruning.Prune(shown, j.schema, true)
	return shown
}

// What the schema finds wrong, and what rules in CEL find wrong besides.
func (j *judge) errors(object map[string]any) (bySchema, byRules []cause) {
	taken := j.taken(object)
	found := validation.ValidateCustomResource(nil, taken, j.validator)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, j.schema, taken)...)
	if j.rules != nil && len(found) == 0 {
		broken, _ := j.rules.Validate(context.Background(), nil, j.schema, taken, nil, perObject)
		byRules = causes(broken)
	}
	return causes(found), byRules
}

func (j *judge) isValid(object map[string]any) bool {
	bySchema, byRules := j.errors(object)
	return len(bySchema)+len(byRules) == 0
}

func causes(errors field.ErrorList) []cause {
	var all []cause
	for _, err := range errors {
		all = append(all, cause{string(err.Type), err.Field, err.ErrorBody()})
	}
	return all
}
