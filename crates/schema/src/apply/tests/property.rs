//! Random managers apply random configurations with random schemas, and the results are compared with a model.
//!
//! In the model an object is a map from the path of each leaf to its value, and a manager owns a set of such paths. The
//! model walks the schema itself and shares no code with the implementation.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::custom::kind_shape;
use crate::apply::{Error, FieldManager, FieldSet, Force, ManagedFields, apply, update};
use crate::custom::Schema;
use crate::tree::{Tree, to_tree};
use crate::write::write_tree;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The path of each leaf and its value; null for an item of a list by itself.
type Leaves = BTreeMap<String, Value>;

// === random schemas and configurations ===

pub(super) fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer"})),
        Just(json!({"type": "array", "items": {"type": "string"}})),
        Just(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
        Just(json!({"type": "object", "additionalProperties": {"type": "string"}})),
        Just(
            json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"})
        ),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), inner.clone(), 1..=3);
        let values = inner.prop_map(|values| json!({"type": "object", "additionalProperties": values}));
        prop_oneof![
            1 => values,
            3 => fields.clone().prop_map(|fields| json!({"type": "object", "properties": fields})),
            2 => fields.clone().prop_map(keyed_list),
            1 => fields.prop_map(|fields| json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": fields})),
        ]
    })
}

fn keyed_list(mut fields: BTreeMap<&str, Value>) -> Value {
    fields.insert("key", json!({"type": "string"}));
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
        "items": {"type": "object", "properties": fields},
    })
}

/// A value of the schema without nulls and empty collections; `None` if there is nothing left.
fn value(schema: &Value) -> BoxedStrategy<Option<Value>> {
    let word = || prop::sample::select(NAMES.to_vec()).prop_map(Value::from);
    let listed = |items: Vec<Value>| (!items.is_empty()).then_some(Value::Array(items));
    match schema["type"].as_str().unwrap() {
        "string" => prop::option::of(word()).boxed(),
        "integer" => prop::option::of((0..3i64).prop_map(Value::from)).boxed(),
        "array" if schema["x-kubernetes-list-type"] == "map" => {
            let items = prop::collection::btree_map(
                prop::sample::select(NAMES.to_vec()),
                object(&schema["items"]),
                0..=3,
            );
            items.prop_shuffle_values().prop_map(listed).boxed()
        }
        "array" => prop::sample::subsequence(NAMES.map(Value::from).to_vec(), 0..=3)
            .prop_shuffle()
            .prop_map(listed)
            .boxed(),
        _ if schema["additionalProperties"].is_object() => {
            let values = value(&schema["additionalProperties"]);
            let map = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), values, 0..=3);
            map.prop_map(|map| {
                let present = map
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?)));
                let map: Map<String, Value> = present.collect();
                (!map.is_empty()).then_some(Value::Object(map))
            })
            .boxed()
        }
        _ => object(schema)
            .prop_map(|map| (!map.is_empty()).then_some(Value::Object(map)))
            .boxed(),
    }
}

pub(super) fn object(schema: &Value) -> BoxedStrategy<Map<String, Value>> {
    let fields = schema["properties"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "key");
    let fields: Vec<_> = fields
        .map(|(name, schema)| {
            value(schema).prop_map({
                let name = name.clone();
                move |value| value.map(|value| (name.clone(), value))
            })
        })
        .collect();
    fields
        .prop_map(|fields| fields.into_iter().flatten().collect())
        .boxed()
}

/// The items of a keyed list, in any order, each with its key.
trait ShuffledItems {
    fn prop_shuffle_values(self) -> BoxedStrategy<Vec<Value>>;
}

impl<S: Strategy<Value = BTreeMap<&'static str, Map<String, Value>>> + 'static> ShuffledItems for S {
    fn prop_shuffle_values(self) -> BoxedStrategy<Vec<Value>> {
        let items = self.prop_map(|items| {
            let items = items.into_iter().map(|(key, mut item)| {
                item.insert("key".to_owned(), key.into());
                Value::Object(item)
            });
            items.collect::<Vec<_>>()
        });
        items.prop_shuffle().boxed()
    }
}

/// One apply request.
#[derive(Clone, Debug)]
struct Step {
    manager: &'static str,
    configuration: Value,
    force: bool,
}

fn steps(schema: &Value) -> BoxedStrategy<Vec<Step>> {
    let step = (
        prop::sample::select(vec!["m1", "m2", "m3"]),
        value(schema),
        any::<bool>(),
    );
    let step = step.prop_map(|(manager, spec, force)| Step {
        manager,
        configuration: spec.map_or_else(|| json!({}), |spec| json!({"spec": spec})),
        force,
    });
    prop::collection::vec(step, 1..8).boxed()
}

fn scripts() -> impl Strategy<Value = (Value, Vec<Step>)> {
    let root = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), schema(), 1..=3);
    let root = root.prop_map(|fields| json!({"type": "object", "properties": fields}));
    root.prop_flat_map(|spec| {
        let steps = steps(&spec);
        (
            Just(json!({"type": "object", "properties": {"spec": spec}})),
            steps,
        )
    })
}

// === the model ===

fn leaves(schema: &Value, value: &Value, path: &str, found: &mut Leaves) {
    let atomic = schema["x-kubernetes-map-type"] == "atomic";
    match (value, schema["x-kubernetes-list-type"].as_str()) {
        (Value::Object(map), _) if !atomic => {
            for (key, value) in map {
                let (path, named) = (format!("{path}.{key}"), schema["properties"].get(key));
                let below = named.unwrap_or(&schema["additionalProperties"]);
                leaves(below, value, &path, found);
                if named.is_none() {
                    // A key of a map is owned by itself, like an item of a list.
                    found.entry(path).or_insert(Value::Null);
                }
            }
        }
        (Value::Array(items), Some("set")) => {
            found.extend(items.iter().map(|item| (format!("{path}[={item}]"), Value::Null)));
        }
        (Value::Array(items), Some("map")) => {
            for item in items {
                let path = format!("{path}[key={}]", item["key"]);
                leaves(&schema["items"], item, &path, found);
                found.insert(path, Value::Null);
            }
        }
        _ => drop(found.insert(path.to_owned(), value.clone())),
    }
}

#[derive(Clone, Default)]
struct Model {
    live: Leaves,
    owned: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Model {
    /// The conflicts of a step: paths of other owners that would change.
    fn conflicts(&self, step: &Step, applied: &Leaves) -> BTreeSet<(&'static str, String)> {
        let others = self.owned.iter().filter(|(manager, _)| **manager != step.manager);
        let overlaps = others.flat_map(|(manager, owned)| owned.iter().map(move |path| (*manager, path)));
        let differ = |path: &String| {
            applied
                .get(path)
                .is_some_and(|value| self.live.get(path) != Some(value))
        };
        overlaps
            .filter(|(_, path)| differ(path))
            .map(|(manager, path)| (manager, path.clone()))
            .collect()
    }

    fn apply(&mut self, step: &Step, applied: Leaves, conflicts: &BTreeSet<(&'static str, String)>) {
        for (manager, path) in conflicts {
            self.owned.get_mut(manager).unwrap().remove(path);
        }
        self.owned.insert(step.manager, applied.keys().cloned().collect());
        self.owned.retain(|_, owned| !owned.is_empty());
        self.live.extend(applied);
        let owned: BTreeSet<&String> = self.owned.values().flatten().collect();
        self.live.retain(|path, _| owned.contains(path));
    }
}

// === the properties ===

fn request<'a>(name: &'a str, now: &'a str, reset: &'a FieldSet) -> FieldManager<'a> {
    FieldManager {
        name,
        api_version: "v1",
        subresource: "",
        now,
        reset,
        converter: None,
    }
}

fn owners(object: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let managers = ManagedFields::of(object).unwrap();
    let entries = managers.entries().iter();
    entries
        .map(|entry| {
            (
                entry.id.manager.to_string(),
                entry.fields.paths().into_iter().collect(),
            )
        })
        .collect()
}

fn leaves_of(schema: &Value, object: &Tree) -> Leaves {
    let mut found = Leaves::new();
    let spec = object.get("spec").map(|spec| serde_json::to_value(spec).unwrap());
    if let Some(spec) = spec.filter(|spec| !spec.is_null()) {
        leaves(&schema["properties"]["spec"], &spec, ".spec", &mut found);
    }
    found
}

fn check_script(schema: &Value, steps: &[Step]) -> Result<(), TestCaseError> {
    let (shape, reset) = (kind_shape(schema), FieldSet::default());
    let (mut object, mut model) = (Tree::Map(Default::default()), Model::default());
    for step in steps {
        let configuration = to_tree(&step.configuration).unwrap();
        let applied = leaves_of(schema, &configuration);
        let conflicts = model.conflicts(step, &applied);
        let force = if step.force { Force::Yes } else { Force::No };
        let manager = request(step.manager, "t", &reset);
        match apply(&object, &configuration, &shape, &manager, force) {
            Err(Error::Conflicts(found)) => {
                let found = found
                    .list
                    .iter()
                    .map(|conflict| (conflict.owner.manager.as_str(), conflict.path.clone()));
                prop_assert_eq!(found.collect::<BTreeSet<_>>(), conflicts, "{:?}", step);
                continue;
            }
            result => object = result.unwrap(),
        }
        prop_assert!(
            step.force || conflicts.is_empty(),
            "{:?} should have met {:?}",
            step,
            conflicts
        );
        model.apply(step, applied, &conflicts);
        prop_assert_eq!(leaves_of(schema, &object), model.live.clone(), "{:?}", step);
        let owned = model
            .owned
            .iter()
            .map(|(manager, owned)| (manager.to_string(), owned.clone()));
        prop_assert_eq!(owners(&object), owned.collect(), "{:?}", step);
        let later = request(step.manager, "later", &reset);
        let again = apply(&object, &configuration, &shape, &later, Force::No).unwrap();
        prop_assert_eq!(text(&again), text(&object), "{:?} applied twice", step);
    }
    Ok(())
}

/// The JSON of an object with its managed fields and their times, keys sorted.
fn text(object: &Tree) -> String {
    let mut bytes = Vec::new();
    write_tree(&object.sorted(), &mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// Applies and updates in turns; the odd steps are updates.
fn check_mix(schema: &Value, steps: &[Step]) -> Result<(), TestCaseError> {
    let custom = Schema::compile(&to_tree(schema).unwrap());
    let (shape, reset) = (kind_shape(schema), FieldSet::default());
    let mut object = Tree::Map(Default::default());
    object.set(&["metadata", "uid"], "u");
    for (at, step) in steps.iter().enumerate() {
        let mut configuration = to_tree(&step.configuration).unwrap();
        let manager = request(step.manager, "t", &reset);
        if at % 2 == 0 {
            object = apply(&object, &configuration, &shape, &manager, Force::Yes).unwrap();
            custom.prune(&mut object);
            custom.prune_non_nullable_nulls(&mut object);
            let later = request(step.manager, "later", &reset);
            let again = apply(&object, &configuration, &shape, &later, Force::No).unwrap();
            let owned = !owners(&object).is_empty();
            prop_assert!(
                !owned || again.semantic_eq(&object),
                "{:?} applied twice makes {:?}",
                step,
                again
            );
        } else {
            configuration.set(&["metadata", "uid"], "u");
            update(&object, &mut configuration, &shape, &manager);
            check_update(schema, (&object, &configuration), step)?;
            object = configuration;
        }
    }
    Ok(())
}

/// An update makes its manager the only owner of changed fields, and keeps the owners of all others.
fn check_update(schema: &Value, (old, new): (&Tree, &Tree), step: &Step) -> Result<(), TestCaseError> {
    let (before, after) = (leaves_of(schema, old), leaves_of(schema, new));
    let (was, is) = (owners_by_path(old), owners_by_path(new));
    if was.is_empty() {
        return Ok(());
    }
    for (path, value) in &after {
        let owner = format!("{} Update", step.manager);
        if before.get(path) == Some(value) {
            prop_assert_eq!(is.get(path), was.get(path), "{} is unchanged", path);
        } else {
            prop_assert_eq!(
                is.get(path),
                Some(&BTreeSet::from([owner])),
                "{} is changed",
                path
            );
        }
    }
    Ok(())
}

fn owners_by_path(object: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in ManagedFields::of(object).unwrap().entries() {
        let name = format!("{} {}", entry.id.manager, entry.id.operation.as_str());
        for path in entry.fields.paths() {
            owners.entry(path).or_default().insert(name.clone());
        }
    }
    owners
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    /// TO11
    #[test]
    fn to11_applied_configurations_agree_with_the_model((schema, steps) in scripts()) {
        check_script(&schema, &steps)?;
    }

    /// TO11
    #[test]
    fn to11_updates_between_applies_keep_ownership_true((schema, steps) in scripts()) {
        check_mix(&schema, &steps)?;
    }
}
