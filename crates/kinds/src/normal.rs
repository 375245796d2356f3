//! Brings a pruned document into the one form that comparisons rely on.
//!
//! An empty list or map that may be left out means the same as none at all, a quantity has one canonical text, and a
//! field with a constant default has a value. After this step two documents that mean the same are the same typed
//! object.

use setpoint_api::Quantity;
use setpoint_schema::shape::{Card, Field, Of};
use setpoint_schema::{Shape, Tree};

use crate::kind::Problem;

/// Drops empty lists and maps, makes quantities canonical, and fills in constant defaults.
pub(crate) fn normalise(shape: &Shape, tree: &mut Tree) -> Result<(), Problem> {
    let Tree::Map(map) = tree else { return Ok(()) };
    let mut problem = None;
    let mut guess = 0;
    map.retain(|name, value| {
        let Some(at) = shape.position(name, guess) else {
            return true;
        };
        guess = at + 1;
        let field = &shape.members()[at];
        if let Err(found) = member(field, value) {
            problem.get_or_insert(found);
        }
        !is_empty(field, value)
    });
    for field in shape.members() {
        if let Some(default) = &field.default
            && !is_set(field, map.get(&field.name))
        {
            map.insert(field.name.clone(), default.clone());
        }
    }
    problem.map_or(Ok(()), Err)
}

/// Whether a field has a value of its own. Where absence cannot be told from zero, zero is none.
fn is_set(field: &Field, value: Option<&Tree>) -> bool {
    match value {
        None | Some(Tree::Null) => false,
        Some(Tree::Str(text)) => field.ptr || !text.is_empty(),
        Some(_) => true,
    }
}

fn member(field: &Field, value: &mut Tree) -> Result<(), Problem> {
    match (field.card, value) {
        (_, Tree::Null) => Ok(()),
        (Card::One, value) => one(&field.of, value),
        (Card::List, Tree::List(items)) => items.iter_mut().try_for_each(|item| one(&field.of, item)),
        (Card::Map, Tree::Map(map)) => map.iter_mut().try_for_each(|(_, item)| match field.of {
            Of::Quantity => quantity(item, Quantity::round_up_to_milli),
            _ => one(&field.of, item),
        }),
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

/// A list or map without anything in it is left out, unless the kind shows it even then.
fn is_empty(field: &Field, value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::List(items) => field.card == Card::List && items.is_empty() && field.zero.is_none(),
        Tree::Map(map) => field.card == Card::Map && map.is_empty() && field.zero.is_none(),
        _ => false,
    }
}
