//! Fields of maps, and methods of values that have some.

use super::State;
use super::call::Call;
use crate::error::Error;
use crate::functions::{Function, methods};
use crate::parser::node::Operand as Node;
use crate::quote;
use crate::template::MissingKey;
use crate::value::{ElementType, Map, Operand, Value};

impl<'t> State<'_, 't> {
    pub(super) fn eval_field(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        (node, name): (&'t Node, &'t str),
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        if !receiver.is_valid() {
            return match self.run.set.missing_key() {
                MissingKey::Error => {
                    let key = quote::quote(name);
                    Err(self.error(format_args!("nil data; no entry for key {key}")))
                }
                _ => Ok(Operand::default()),
            };
        }
        let type_name = receiver.static_type();
        if receiver.is_nil_interface() {
            return Err(self.error(format_args!("nil pointer evaluating {type_name}.{name}")));
        }
        if let Some(method) = methods::find(&receiver.value, name) {
            return self.eval_method(dot, &method, (node, name), call);
        }
        match &receiver.value {
            Value::Map(map) => self.map_entry(map, name, &call),
            _ => Err(self.error(format_args!("can't evaluate field {name} in type {type_name}"))),
        }
    }

    fn eval_method(
        &mut self,
        dot: &Operand,
        method: &Function,
        (node, name): (&'t Node, &'t str),
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        let values = self.eval_args(dot, method, name, call)?;
        self.call_at(method, &values, (node, name))
    }

    fn map_entry(&self, map: &Map, name: &str, call: &Call<'t>) -> Result<Operand, Error> {
        if call.has_args() {
            return Err(self.error(format_args!("{name} is not a method but has arguments")));
        }
        if let Some(value) = map.find(name) {
            return Ok(Operand::element(value, map.element()));
        }
        match (self.run.set.missing_key(), map.element()) {
            (MissingKey::Default, _) => Ok(Operand::default()),
            (MissingKey::Zero, ElementType::String) => Ok(Operand::new(Value::string(""))),
            (MissingKey::Zero, _) => Ok(Operand::interface(Value::Nil)),
            (MissingKey::Error, _) => {
                let key = quote::quote(name);
                Err(self.error(format_args!("map has no entry for key {key}")))
            }
        }
    }
}
