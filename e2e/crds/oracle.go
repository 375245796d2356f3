package main

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The CEL cost limits of kube-apiserver.
const (
	costPerCall   = 1000000
	costPerObject = 10000000
)

// Part of the error of the scale subresource for a number that it cannot read; the schema reports its own error as well.
const scaleAccessorError = " accessor error: "

// The additional error of kube-apiserver if CEL rules were not evaluated because the object violates the schema.
const rulesNotChecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// oracle validates objects of one version with Kubernetes' own library.
type oracle struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
	hasStatus bool
	// The apiVersion, kind and metadata of an object of the version.
	typeAndMeta map[string]any
}

// cause is an error of a Status.
type cause struct{ Type, Field, Message string }

// validateCRD returns the errors of a CRD by the library's validation.
func validateCRD(typed apiextensionsv1.CustomResourceDefinition) ([]cause, error) {
	defaulted := typed.DeepCopy()
	defaulted.Status.StoredVersions = nil
	apiextensionsv1.SetDefaults_CustomResourceDefinition(defaulted)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&defaulted.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, internal, nil)
	if err != nil {
		return nil, err
	}
	return causes(crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal)), nil
}

func newOracle(crd apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion) (*oracle, error) {
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
	return &oracle{
		schema:    schema,
		validator: validator,
		rules:     cel.NewValidator(schema, true, costPerCall),
		hasStatus: version.Subresources != nil && version.Subresources.Status != nil,
		typeAndMeta: map[string]any{
			"apiVersion": crd.Spec.Group + "/" + version.Name,
			"kind":       crd.Spec.Names.Kind,
			"metadata":   map[string]any{"name": "sample-" + version.Name},
		},
	}, nil
}

// prepare prunes and defaults an object.
func (o *oracle) prepare(object map[string]any) map[string]any {
	prepared := runtime.DeepCopyJSON(object)
	pruning.Prune(prepared, o.schema, true)
	defaulting.Default(prepared, o.schema)
	return prepared
}

// stored returns the response to a create if storage is the oracle of the storage version. Defaults of the storage version
// are in the response only if this version has the field.
func (o *oracle) stored(object map[string]any, storage *oracle) map[string]any {
	prepared := o.prepare(object)
	if o.hasStatus {
		delete(prepared, "status")
	}
	converted := storage.prepare(prepared)
	pruning.Prune(converted, o.schema, true)
	return converted
}

// errors returns the errors of the schema, and those of the CEL rules if there are none.
func (o *oracle) errors(object map[string]any) (bySchema, byRules []cause) {
	prepared := o.prepare(object)
	found := validation.ValidateCustomResource(nil, prepared, o.validator)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, o.schema, prepared)...)
	if o.rules != nil && len(found) == 0 {
		violations, _ := o.rules.Validate(context.Background(), nil, o.schema, prepared, nil, costPerObject)
		byRules = causes(violations)
	}
	return causes(found), byRules
}

func (o *oracle) isValid(object map[string]any) bool {
	bySchema, byRules := o.errors(object)
	return len(bySchema)+len(byRules) == 0
}

func causes(errors field.ErrorList) []cause {
	var all []cause
	for _, err := range errors {
		all = append(all, cause{string(err.Type), err.Field, err.ErrorBody()})
	}
	return all
}
