//! Brings a pruned document into the one form that rules and comparisons rely on.
//!
//! Fields stand in the order of the shape and map keys in their own; a zero value that cannot be told from absence is
//! absent, an empty list or map that may be left out is left out, a quantity has one canonical text, and a field with a
//! constant default has a value. After this step two documents that mean the same are equal.

use setpoint_api::Quantity;
use setpoint_schema::shape::{Card, Field, Of};
use setpoint_schema::{Map, Shape, Tree};

use crate::kind::Problem;

/// The feature gates that are off. Their fields are dropped wherever they appear, so that they never come to be in use.
const OFF: &[&str] = &[
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

/// Gives a document its normal form.
pub(crate) fn normalise(shape: &Shape, tree: &mut Tree) -> Result<(), Problem> {
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
        if let Err(found) = member(field, value) {
            problem.get_or_insert(found);
        }
        !is_absent(field, value)
    });
    in_order &= fill(shape, map);
    if !in_order {
        let last = shape.members().len();
        map.pairs_mut()
            .sort_by_key(|(name, _)| shape.position(name, 0).unwrap_or(last));
    }
    problem.map_or(Ok(()), Err)
}

fn is_off(field: &Field) -> bool {
    let off = |gates: &str| gates.split(',').any(|gate| OFF.contains(&gate));
    field.gate().is_some_and(off)
}

/// Fills in constant defaults. Whether there was nothing to fill in.
fn fill(shape: &Shape, map: &mut Map) -> bool {
    let mut filled = false;
    for field in shape.members() {
        if let Some(default) = &field.default
            && map.get(&field.name).is_none_or(Tree::is_null)
        {
            map.insert(field.name.clone(), default.clone());
            filled = true;
        }
    }
    !filled
}

fn member(field: &Field, value: &mut Tree) -> Result<(), Problem> {
    match (field.card, value) {
        (_, Tree::Null) => Ok(()),
        (Card::One, value) => one(&field.of, value),
        (Card::List, Tree::List(items)) => items.iter_mut().try_for_each(|item| one(&field.of, item)),
        (Card::Map, Tree::Map(map)) => {
            if !map.keys().is_sorted() {
                map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
            }
            map.iter_mut().try_for_each(|(_, item)| match field.of {
                Of::Quantity => quantity(item, Quantity::round_up_to_milli),
                _ => one(&field.of, item),
            })
        }
        _ => Ok(()),
    }
}

fn one(of: &Of, value: &mut Tree) -> Result<(), Problem> {
    match of {
        Of::Shape(link) => normalise(link.shape(), value),
        Of::Quantity => quantity(value, |amount| amount),
        _ => Ok(()),
    }
}

/// Lists of amounts are kept in whole thousandths; a single amount is kept as it is.
fn quantity(value: &mut Tree, round: fn(Quantity) -> Quantity) -> Result<(), Problem> {
    let text = match value {
        Tree::Str(text) => text.clone(),
        Tree::Int(number) => compact_str::format_compact!("{number}"),
        Tree::Float(number) => compact_str::format_compact!("{number}"),
        _ => return Ok(()),
    };
    let quantity: Quantity = text
        .parse()
        .map_err(|error: setpoint_api::quantity::BadQuantity| Problem(error.to_string()))?;
    *value = Tree::Str(compact_str::format_compact!("{}", round(quantity)));
    Ok(())
}

/// Whether a value means that there is none. A list or map that the kind shows even when it is empty is kept, since
/// empty is then told from none.
fn is_absent(field: &Field, value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        _ if field.ptr && field.card == Card::One => false,
        Tree::List(items) => field.card == Card::List && items.is_empty() && field.zero.is_none(),
        Tree::Map(map) if field.card == Card::Map => map.is_empty() && field.zero.is_none(),
        Tree::Map(map) => map.is_empty() && field.shape().is_some(),
        Tree::Str(text) => text.is_empty() && !matches!(field.of, Of::IntOrString | Of::RawJson),
        Tree::Int(number) => *number == 0 && !matches!(field.of, Of::IntOrString | Of::RawJson),
        Tree::Bool(value) => !*value && !matches!(field.of, Of::RawJson),
        Tree::Float(number) => *number == 0.0 && !matches!(field.of, Of::RawJson),
    }
}
