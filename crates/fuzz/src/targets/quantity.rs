//! Quantities: the canonical text of one is a quantity of the same value.

use setpoint_api::quantity::Quantity;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "quantity",
    cost: 1,
    seeds: || corpus::lines("quantities.txt"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(quantity) = text.parse::<Quantity>() else {
        return;
    };
    let again: Quantity = quantity
        .to_string()
        .parse()
        .expect("what was written can be read");
    assert_eq!(again, quantity, "{text:?} is {quantity}, and that is {again}");
    let _ = (
        quantity.value(),
        quantity.milli_value(),
        quantity.round_up_to_milli(),
    );
    let _ = (quantity.is_zero(), quantity.is_negative());
}
