//! Comprehensions: loops over lists and maps.

use super::{EvalError, Frame, Outcome, no_such_overload};
use crate::plan::Fold;
use crate::value::Value;

impl<'a> Frame<'a, '_> {
    pub(super) fn fold(&mut self, fold: &Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        let slot = self.locals.len();
        self.locals.push(init);
        let outcome = self.iterate(fold, slot, &range);
        self.locals.truncate(slot + 1);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.locals.truncate(slot);
        outcome
    }

    fn iterate(&mut self, fold: &Fold, slot: usize, range: &Value<'a>) -> Result<(), EvalError> {
        match range {
            Value::List(list) => {
                for at in 0..list.len() {
                    let Some(item) = list.get(at) else { break };
                    let index = i64::try_from(at).unwrap_or(i64::MAX);
                    let variables = match fold.has_two {
                        true => (Value::Int(index), Some(item)),
                        false => (item, None),
                    };
                    if !self.turn(fold, slot, variables)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    if !self.turn(fold, slot, (key, fold.has_two.then_some(value)))? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(no_such_overload()),
        }
    }

    /// One turn of a loop. Returns whether it goes on.
    fn turn(
        &mut self,
        fold: &Fold,
        slot: usize,
        variables: (Value<'a>, Option<Value<'a>>),
    ) -> Result<bool, EvalError> {
        self.locals.truncate(slot + 1);
        self.locals.push(Ok(variables.0));
        self.locals.extend(variables.1.map(Ok));
        if let Value::Bool(false) = self.eval(&fold.condition)? {
            return Ok(false);
        }
        if let Some(collect) = &fold.collect
            && self.locals[slot].is_ok()
        {
            match self.collect(collect, slot) {
                Err(EvalError::CostExceeded) => return Err(EvalError::CostExceeded),
                Err(failed) => self.locals[slot] = Err(failed),
                Ok(()) => {}
            }
            return Ok(true);
        }
        let value = self.eval(&fold.step);
        if value == Err(EvalError::CostExceeded) {
            return Err(EvalError::CostExceeded);
        }
        self.locals[slot] = value;
        Ok(true)
    }
}
