//! Calls of functions: the number of arguments, their evaluation, and the call itself.

use super::State;
use crate::error::Error;
use crate::functions::{self, Function, Type};
use crate::parser::node::{Operand as Node, Site};
use crate::quote;
use crate::value::{Operand, Value};

/// The arguments of a command: its nodes, of which the first is the function, and the value that is piped to it.
#[derive(Debug)]
pub(super) struct Call<'t> {
    pub(super) args: &'t [Node],
    pub(super) last: Option<Operand>,
}

impl<'t> Call<'t> {
    pub(super) fn without_args() -> Self {
        Self {
            args: &[],
            last: None,
        }
    }

    pub(super) fn has_args(&self) -> bool {
        self.args.len() > 1 || self.last.is_some()
    }

    fn nodes(&self) -> &'t [Node] {
        self.args.get(1..).unwrap_or_default()
    }
}

impl<'t> State<'_, 't> {
    pub(super) fn eval_function(
        &mut self,
        dot: &Operand,
        node: &'t Node,
        site: &'t dyn Site,
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        self.at(node);
        let Node::Function { name, .. } = node else {
            return Ok(Operand::default());
        };
        let Some(function) = self.run.set.functions().find(name) else {
            let name = quote::quote(name);
            return Err(self.error(format_args!("{name} is not a defined function")));
        };
        if functions::is_short_circuit(function) {
            self.check_arg_count(function, name, &call)?;
            return self.eval_and_or(dot, name == "or", call);
        }
        let callee = callee_text(&call);
        let values = self.eval_args(dot, function, name, call)?;
        if functions::is_call(function) {
            return self.call_value(&callee, &values, site);
        }
        self.call_at(function, &values, (site, name))
    }

    pub(super) fn call_at(
        &mut self,
        function: &Function,
        values: &[Operand],
        (site, name): (&'t dyn Site, &str),
    ) -> Result<Operand, Error> {
        let context = &self.run.context;
        let result = function.call(context, values).and_then(|value| {
            context.charge(functions::size(&value))?;
            Ok(value)
        });
        result.map(Operand::new).map_err(|message| {
            self.at(site);
            self.error(format_args!("error calling {name}: {message}"))
        })
    }

    /// `and` and `or` evaluate their arguments only up to the one that decides.
    fn eval_and_or(&mut self, dot: &Operand, is_or: bool, call: Call<'t>) -> Result<Operand, Error> {
        let mut value = Operand::default();
        for node in call.nodes() {
            value = self.eval_arg(dot, Type::Reflect, node)?;
            if value.value.is_true() == is_or {
                return Ok(value);
            }
        }
        Ok(call.last.unwrap_or(value))
    }

    /// `call`: the first value is the function.
    fn call_value(&mut self, callee: &str, values: &[Operand], site: &'t dyn Site) -> Result<Operand, Error> {
        let function = match &values[0].value {
            Value::Function(function) => Ok(function.clone()),
            Value::Nil => Err("call of nil".to_owned()),
            value => Err(format!("non-function {callee} of type {}", value.type_name())),
        };
        let result = function.and_then(|function| {
            let values = function.prepare_args(callee, &values[1..])?;
            function.call(&self.run.context, &values)
        });
        result.map(Operand::new).map_err(|message| {
            self.at(site);
            self.error(format_args!("error calling call: {message}"))
        })
    }

    fn check_arg_count(&self, function: &Function, name: &str, call: &Call<'t>) -> Result<(), Error> {
        let given = call.nodes().len() + usize::from(call.last.is_some());
        let wanted = function.params().len();
        if function.is_variadic() {
            return match given < wanted - 1 {
                true => Err(self.error(format_args!(
                    "wrong number of args for {name}: want at least {} got {}",
                    wanted - 1,
                    call.nodes().len()
                ))),
                false => Ok(()),
            };
        }
        match given == wanted {
            true => Ok(()),
            false => Err(self.error(format_args!(
                "wrong number of args for {name}: want {wanted} got {given}"
            ))),
        }
    }

    /// The values of all arguments, in the types of the parameters.
    pub(super) fn eval_args(
        &mut self,
        dot: &Operand,
        function: &Function,
        name: &str,
        call: Call<'t>,
    ) -> Result<Vec<Operand>, Error> {
        self.check_arg_count(function, name, &call)?;
        let mut values = Vec::with_capacity(call.args.len());
        for (i, node) in call.nodes().iter().enumerate() {
            values.push(self.eval_arg(dot, function.param(i), node)?);
        }
        if let Some(last) = call.last {
            values.push(self.validate(last, function.param(values.len()))?);
        }
        Ok(values)
    }
}

/// The text of the function that `call` calls, for error messages.
fn callee_text(call: &Call<'_>) -> String {
    match (call.nodes().first(), &call.last) {
        (Some(node), _) => node.to_string(),
        (
            None,
            Some(Operand {
                value: Value::String(text),
                ..
            }),
        ) => text.to_string(),
        (None, Some(last)) => format!("<{} Value>", last.static_type()),
        (None, None) => String::new(),
    }
}
