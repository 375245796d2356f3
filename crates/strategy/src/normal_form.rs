//! Normalises a pruned object into the one form that validation and comparisons rely on.
//!
//! Fields are in the order of the shape and map keys sorted; a zero value that is equivalent to absence is absent, an
//! empty list or map that may be omitted is omitted, a quantity has its canonical text, and a field with a constant
//! default has a value. In normal form, two objects that mean the same are equal.

use setpoint_api::quantity::{
    ParseQuantityError, canonical_text, canonical_text_in_list, is_obviously_canonical,
};
use setpoint_schema::shape::{Cardinality, Field, FieldType};
use setpoint_schema::{Map, Shape, Tree};

use crate::kind::InvalidObject;

/// The disabled feature gates. Their fields are dropped wherever they appear, so that no stored object uses them.
const DISABLED_GATES: &[&str] = &[
    "AtomicWriteVolumeUserFields",
    "CSIVolumeHealth",
    "ContainerStopSignals",
    "CrossNamespaceVolumeDataSource",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "EmptyDirVolumeMode",
    "EvictionRequestAPI",
    "GRPCContainerProbeTLS",
    "GenericWorkload",
    "H2CContainerProbe",
    "ImageVolumeWithDigest",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "VolumeBindMountOptions",
    "WorkloadWithJob",
];

/// Brings an object into normal form.
pub fn normalise(shape: &Shape, tree: &mut Tree) -> Result<(), InvalidObject> {
    let Tree::Map(map) = tree else { return Ok(()) };
    let mut problem = None;
    let mut guess = 0;
    let mut in_order = true;
    map.retain(|name, value| {
        let Some(at) = shape.position(name, guess) else {
            return true;
        };
        in_order &= at >= guess;
        guess = at + 1;
        let field = &shape.members()[at];
        if is_off(field) {
            return false;
        }
        if let Err(found) = normalise_field(field, value) {
            problem.get_or_insert(found);
        }
        !is_absent(field, value)
    });
    in_order &= set_defaults(shape, map);
    if !in_order {
        let last = shape.members().len();
        map.pairs_mut()
            .sort_by_cached_key(|(name, _)| shape.position(name, 0).unwrap_or(last));
    }
    problem.map_or(Ok(()), Err)
}

fn is_off(field: &Field) -> bool {
    let off = |gates: &str| gates.split(',').any(|gate| DISABLED_GATES.contains(&gate));
    field.feature_gates().is_some_and(off)
}

/// Sets constant defaults. Returns whether there were none to set.
fn set_defaults(shape: &Shape, map: &mut Map) -> bool {
    let mut filled = false;
    for field in shape.defaulted_members() {
        if let Some(default) = &field.default
            && map.get(&field.name).is_none_or(Tree::is_null)
        {
            map.insert(field.name.clone(), default.clone());
            filled = true;
        }
    }
    !filled
}

fn normalise_field(field: &Field, value: &mut Tree) -> Result<(), InvalidObject> {
    match (field.cardinality, value) {
        (_, Tree::Null) => Ok(()),
        (Cardinality::One, value) => normalise_value(&field.value_type, value),
        (Cardinality::List, Tree::List(items)) => items
            .iter_mut()
            .try_for_each(|item| normalise_value(&field.value_type, item)),
        (Cardinality::Map, Tree::Map(map)) => {
            if !map.keys().is_sorted() {
                map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
            }
            map.iter_mut().try_for_each(|(_, item)| match field.value_type {
                FieldType::Quantity => quantity(item, canonical_text_in_list),
                _ => normalise_value(&field.value_type, item),
            })
        }
        _ => Ok(()),
    }
}

fn normalise_value(of: &FieldType, value: &mut Tree) -> Result<(), InvalidObject> {
    match of {
        FieldType::Shape(link) => normalise(link.shape(), value),
        FieldType::Quantity => quantity(value, canonical_text),
        _ => Ok(()),
    }
}

/// Quantities in maps (resource lists) are rounded up to milli-units; a single quantity is stored as it is.
fn quantity(
    value: &mut Tree,
    canonical: fn(&str) -> Result<String, ParseQuantityError>,
) -> Result<(), InvalidObject> {
    let text = match value {
        Tree::Str(text) if is_obviously_canonical(text) => return Ok(()),
        Tree::Str(text) => text.clone(),
        Tree::Int(number) => compact_str::format_compact!("{number}"),
        Tree::Float(number) => compact_str::format_compact!("{number}"),
        _ => return Ok(()),
    };
    let canonical = canonical(text.trim()).map_err(|error| InvalidObject::Malformed(error.to_string()))?;
    *value = Tree::Str(canonical.into());
    Ok(())
}

/// Whether a value is equivalent to absence. A list or map that the kind shows even when it is empty is kept: there,
/// empty differs from absent.
fn is_absent(field: &Field, value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        _ if field.ptr && field.cardinality == Cardinality::One => false,
        Tree::List(items) => {
            field.cardinality == Cardinality::List && items.is_empty() && field.zero.is_none()
        }
        // Whether a schema has `dependencies` at all is validated.
        Tree::Map(_) if matches!(field.value_type, FieldType::SchemaOrStrings(_)) => false,
        Tree::Map(map) if field.cardinality == Cardinality::Map => map.is_empty() && field.zero.is_none(),
        Tree::Map(map) => map.is_empty() && field.shape().is_some(),
        Tree::Str(text) => {
            text.is_empty() && !matches!(field.value_type, FieldType::IntOrString | FieldType::RawJson)
        }
        Tree::Int(number) => {
            *number == 0 && !matches!(field.value_type, FieldType::IntOrString | FieldType::RawJson)
        }
        Tree::Bool(value) => !*value && !matches!(field.value_type, FieldType::RawJson),
        Tree::Float(number) => *number == 0.0 && !matches!(field.value_type, FieldType::RawJson),
    }
}
