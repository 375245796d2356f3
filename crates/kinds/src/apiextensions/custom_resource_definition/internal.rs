//! Versions, schemas and rules as Kubernetes' internal types print them in errors.

use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::FieldRef;
use setpoint_strategy::display::RawJson;

/// The versions of a CRD. The fields that all versions share are in the spec of the internal type.
pub(super) fn versions(versions: &FieldRef<'_>) -> RawJson {
    let shared = |field: &str| super::versions::is_shared(versions, field);
    let [schema, subresources, columns, selectable] = [
        fields::SCHEMA,
        fields::SUBRESOURCES,
        fields::ADDITIONAL_PRINTER_COLUMNS,
        fields::SELECTABLE_FIELDS,
    ]
    .map(shared);
    let printed = versions.list().iter().map(|version| {
        let own = |field: &str, is_shared: bool| {
            let value = version.get(field).filter(|_| !is_shared);
            value.filter(|value| !value.is_null())
        };
        object([
            ("Name", text(version, fields::NAME)),
            ("Served", flag(version, fields::SERVED)),
            ("Storage", flag(version, fields::STORAGE)),
            ("Deprecated", flag(version, fields::DEPRECATED)),
            (
                "DeprecationWarning",
                any(version.get(fields::DEPRECATION_WARNING)),
            ),
            ("Schema", optional(own(fields::SCHEMA, schema), validation)),
            (
                "Subresources",
                optional(own(fields::SUBRESOURCES, subresources), print_subresources),
            ),
            (
                "AdditionalPrinterColumns",
                list(own(fields::ADDITIONAL_PRINTER_COLUMNS, columns), column),
            ),
            (
                "SelectableFields",
                list(own(fields::SELECTABLE_FIELDS, selectable), |field| {
                    object([("JSONPath", text(field, fields::JSON_PATH))])
                }),
            ),
        ])
    });
    match versions.is_set() {
        true => print(&Tree::from(printed.collect::<Vec<_>>())),
        false => print(&Tree::Null),
    }
}

/// A schema.
pub(super) fn schema(schema: &Tree) -> RawJson {
    print(&print_schema(schema))
}

/// A validation rule.
pub(super) fn rule(rule: &Tree) -> RawJson {
    print(&print_rule(rule))
}

/// JSON as Go's encoder writes it.
fn print(tree: &Tree) -> RawJson {
    let mut json = Vec::new();
    setpoint_schema::write::write_tree(tree, &mut json);
    let json = String::from_utf8_lossy(&json);
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => escaped.push(other),
        }
    }
    RawJson::new(escaped)
}

fn object<const N: usize>(pairs: [(&str, Tree); N]) -> Tree {
    pairs.into_iter().collect::<Map>().into()
}

fn text(tree: &Tree, name: &str) -> Tree {
    tree.get(name)
        .filter(|value| !value.is_null())
        .map_or_else(|| Tree::from(""), Clone::clone)
}

fn flag(tree: &Tree, name: &str) -> Tree {
    Tree::Bool(tree.get(name).and_then(Tree::as_bool) == Some(true))
}

/// A value of any type, with the keys of its maps sorted.
fn any(value: Option<&Tree>) -> Tree {
    match value {
        None => Tree::Null,
        Some(Tree::List(items)) => items
            .iter()
            .map(|item| any(Some(item)))
            .collect::<Vec<_>>()
            .into(),
        Some(map @ Tree::Map(_)) => entries(Some(map), |value| any(Some(value))),
        Some(scalar) => scalar.clone(),
    }
}

fn optional(value: Option<&Tree>, print: impl Fn(&Tree) -> Tree) -> Tree {
    value.filter(|value| !value.is_null()).map_or(Tree::Null, print)
}

fn list(value: Option<&Tree>, print: impl Fn(&Tree) -> Tree) -> Tree {
    let items = value.and_then(Tree::as_list);
    items.map_or(Tree::Null, |items| {
        items.iter().map(print).collect::<Vec<_>>().into()
    })
}

/// A map, sorted by key.
fn entries(value: Option<&Tree>, print: impl Fn(&Tree) -> Tree) -> Tree {
    let Some(map) = value.and_then(Tree::as_map) else {
        return Tree::Null;
    };
    let mut pairs: Vec<(&str, &Tree)> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs
        .into_iter()
        .map(|(key, value)| (key, print(value)))
        .collect::<Map>()
        .into()
}

fn validation(validation: &Tree) -> Tree {
    let schema = validation.get(fields::OPEN_APIV3_SCHEMA);
    object([("OpenAPIV3Schema", optional(schema, print_schema))])
}

fn print_subresources(subresources: &Tree) -> Tree {
    let status = subresources.get(fields::STATUS);
    let scale = |scale: &Tree| {
        object([
            ("SpecReplicasPath", text(scale, fields::SPEC_REPLICAS_PATH)),
            ("StatusReplicasPath", text(scale, fields::STATUS_REPLICAS_PATH)),
            ("LabelSelectorPath", any(scale.get(fields::LABEL_SELECTOR_PATH))),
        ])
    };
    object([
        ("Status", optional(status, |_| object([]))),
        ("Scale", optional(subresources.get(fields::SCALE), scale)),
    ])
}

fn column(column: &Tree) -> Tree {
    let priority = column.get(fields::PRIORITY).and_then(Tree::as_i64);
    object([
        ("Name", text(column, fields::NAME)),
        ("Type", text(column, fields::TYPE)),
        ("Format", text(column, fields::FORMAT)),
        ("Description", text(column, fields::DESCRIPTION)),
        ("Priority", Tree::Int(priority.unwrap_or_default())),
        ("JSONPath", text(column, fields::JSON_PATH)),
    ])
}

fn print_rule(rule: &Tree) -> Tree {
    object([
        ("Rule", text(rule, fields::RULE)),
        ("Message", text(rule, fields::MESSAGE)),
        ("MessageExpression", text(rule, fields::MESSAGE_EXPRESSION)),
        ("Reason", any(rule.get(fields::REASON))),
        ("FieldPath", text(rule, fields::FIELD_PATH)),
        ("OptionalOldSelf", any(rule.get(fields::OPTIONAL_OLD_SELF))),
    ])
}

/// How a field of a schema is printed.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Any,
    Schema,
    Schemas,
    Items,
    SchemaOrBool,
    SchemasByName,
    Dependencies,
    Documentation,
    Rules,
}

/// The fields of a schema in the order of the internal type.
const SCHEMA_FIELDS: &[(&str, &str, Form)] = &[
    ("ID", fields::ID, Form::Text),
    ("Schema", fields::DOLLAR_SCHEMA, Form::Text),
    ("Ref", fields::DOLLAR_REF, Form::Any),
    ("Description", fields::DESCRIPTION, Form::Text),
    ("Type", fields::TYPE, Form::Text),
    ("Nullable", fields::NULLABLE, Form::Flag),
    ("Format", fields::FORMAT, Form::Text),
    ("Title", fields::TITLE, Form::Text),
    ("Default", fields::DEFAULT, Form::Any),
    ("Maximum", fields::MAXIMUM, Form::Any),
    ("ExclusiveMaximum", fields::EXCLUSIVE_MAXIMUM, Form::Flag),
    ("Minimum", fields::MINIMUM, Form::Any),
    ("ExclusiveMinimum", fields::EXCLUSIVE_MINIMUM, Form::Flag),
    ("MaxLength", fields::MAX_LENGTH, Form::Any),
    ("MinLength", fields::MIN_LENGTH, Form::Any),
    ("Pattern", fields::PATTERN, Form::Text),
    ("MaxItems", fields::MAX_ITEMS, Form::Any),
    ("MinItems", fields::MIN_ITEMS, Form::Any),
    ("UniqueItems", fields::UNIQUE_ITEMS, Form::Flag),
    ("MultipleOf", fields::MULTIPLE_OF, Form::Any),
    ("Enum", fields::ENUM, Form::Any),
    ("MaxProperties", fields::MAX_PROPERTIES, Form::Any),
    ("MinProperties", fields::MIN_PROPERTIES, Form::Any),
    ("Required", fields::REQUIRED, Form::Any),
    ("Items", fields::ITEMS, Form::Items),
    ("AllOf", fields::ALL_OF, Form::Schemas),
    ("OneOf", fields::ONE_OF, Form::Schemas),
    ("AnyOf", fields::ANY_OF, Form::Schemas),
    ("Not", fields::NOT, Form::Schema),
    ("Properties", fields::PROPERTIES, Form::SchemasByName),
    (
        "AdditionalProperties",
        fields::ADDITIONAL_PROPERTIES,
        Form::SchemaOrBool,
    ),
    (
        "PatternProperties",
        fields::PATTERN_PROPERTIES,
        Form::SchemasByName,
    ),
    ("Dependencies", fields::DEPENDENCIES, Form::Dependencies),
    ("AdditionalItems", fields::ADDITIONAL_ITEMS, Form::SchemaOrBool),
    ("Definitions", fields::DEFINITIONS, Form::SchemasByName),
    ("ExternalDocs", fields::EXTERNAL_DOCS, Form::Documentation),
    ("Example", fields::EXAMPLE, Form::Any),
    (
        "XPreserveUnknownFields",
        fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS,
        Form::Any,
    ),
    (
        "XEmbeddedResource",
        fields::X_KUBERNETES_EMBEDDED_RESOURCE,
        Form::Flag,
    ),
    ("XIntOrString", fields::X_KUBERNETES_INT_OR_STRING, Form::Flag),
    ("XListMapKeys", fields::X_KUBERNETES_LIST_MAP_KEYS, Form::Any),
    ("XListType", fields::X_KUBERNETES_LIST_TYPE, Form::Any),
    ("XMapType", fields::X_KUBERNETES_MAP_TYPE, Form::Any),
    ("XValidations", fields::X_KUBERNETES_VALIDATIONS, Form::Rules),
];

/// The names of the fields of a schema that are set, in the order of the internal type.
pub(super) fn set_fields(schema: &Tree) -> impl Iterator<Item = &'static str> + '_ {
    let set = SCHEMA_FIELDS
        .iter()
        .filter(|(_, field, _)| match schema.get(field) {
            None | Some(Tree::Null | Tree::Bool(false)) => {
                // Only this flag has three states.
                *field == fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS
                    && schema.get(field).is_some_and(|value| !value.is_null())
            }
            Some(Tree::Str(text)) => !text.is_empty() || *field == fields::DOLLAR_REF,
            Some(_) => true,
        });
    set.map(|(name, _, _)| *name)
}

fn print_schema(schema: &Tree) -> Tree {
    let printed = SCHEMA_FIELDS.iter().map(|(name, field, form)| {
        let value = schema.get(field);
        let printed = match form {
            Form::Text => text(schema, field),
            Form::Flag => flag(schema, field),
            Form::Any => any(value),
            Form::Schema => optional(value, print_schema),
            Form::Schemas => list(value, print_schema),
            Form::Items => optional(value, items),
            Form::SchemaOrBool => optional(value, schema_or_bool),
            Form::SchemasByName => entries(value, print_schema),
            Form::Dependencies => entries(value, dependency),
            Form::Documentation => optional(value, documentation),
            Form::Rules => list(value, print_rule),
        };
        (*name, printed)
    });
    printed.collect::<Map>().into()
}

fn items(items: &Tree) -> Tree {
    match items {
        Tree::List(_) => object([
            ("Schema", Tree::Null),
            ("JSONSchemas", list(Some(items), print_schema)),
        ]),
        one => object([("Schema", print_schema(one)), ("JSONSchemas", Tree::Null)]),
    }
}

fn schema_or_bool(value: &Tree) -> Tree {
    match value {
        Tree::Bool(allows) => object([("Allows", Tree::Bool(*allows)), ("Schema", Tree::Null)]),
        schema => object([("Allows", Tree::Bool(true)), ("Schema", print_schema(schema))]),
    }
}

fn dependency(dependency: &Tree) -> Tree {
    match dependency {
        Tree::List(_) => object([("Schema", Tree::Null), ("Property", any(Some(dependency)))]),
        schema => object([("Schema", print_schema(schema)), ("Property", Tree::Null)]),
    }
}

fn documentation(documentation: &Tree) -> Tree {
    object([
        ("Description", text(documentation, fields::DESCRIPTION)),
        ("URL", text(documentation, fields::URL)),
    ])
}
