//! Evaluation of pipelines and commands.

use super::State;
use super::call::Call;
use crate::error::Error;
use crate::parser::node::{Command, Operand as Node, Pipe};
use crate::parser::number::Number;
use crate::value::{Operand, Value};

impl<'t> State<'_, 't> {
    pub(super) fn eval_pipeline(&mut self, dot: &Operand, pipe: &'t Pipe) -> Result<Operand, Error> {
        self.nested(|state| state.eval_commands(dot, pipe))
    }

    fn eval_commands(&mut self, dot: &Operand, pipe: &'t Pipe) -> Result<Operand, Error> {
        self.at(pipe);
        let mut value: Option<Operand> = None;
        for command in &pipe.cmds {
            value = Some(self.eval_command(dot, command, value)?.unwrapped());
        }
        let value = value.unwrap_or_default();
        for variable in &pipe.decl {
            match pipe.is_assign {
                true => self.set_variable(&variable.names[0], value.clone())?,
                false => self.vars.push((&variable.names[0], value.clone())),
            }
        }
        Ok(value)
    }

    /// The value of a command; the value of the one before is its last argument.
    fn eval_command(
        &mut self,
        dot: &Operand,
        command: &'t Command,
        last: Option<Operand>,
    ) -> Result<Operand, Error> {
        let args = &command.args[..];
        let first = &args[0];
        match first {
            Node::Field(names) => {
                self.at(first);
                let chain = (first, &names.names[..]);
                return self.eval_chain(dot, dot.clone(), chain, Call { args, last });
            }
            Node::Chain { .. } => return self.eval_chain_node(dot, first, Call { args, last }),
            Node::Function { .. } => return self.eval_function(dot, first, command, Call { args, last }),
            Node::Pipe(pipe) => {
                self.check_no_args(&Call { args, last })?;
                return self.eval_pipeline(dot, pipe);
            }
            Node::Variable(_) => return self.eval_variable(dot, first, Call { args, last }),
            _ => {}
        }
        self.at(first);
        self.check_no_args(&Call { args, last })?;
        match first {
            Node::Nil(_) => Err(self.error("nil is not a command")),
            _ => self.eval_constant(dot, first),
        }
    }

    /// Only functions and methods have arguments.
    fn check_no_args(&self, call: &Call<'t>) -> Result<(), Error> {
        match call.has_args() {
            true => Err(self.error(format_args!(
                "can't give argument to non-function {}",
                call.args[0]
            ))),
            false => Ok(()),
        }
    }

    /// The value of a constant or the dot, in its natural type.
    pub(super) fn eval_constant(&mut self, dot: &Operand, node: &'t Node) -> Result<Operand, Error> {
        self.at(node);
        Ok(match node {
            Node::Dot(_) => dot.clone(),
            Node::Bool(_, value) => Operand::new(Value::Bool(*value)),
            Node::Text { text, .. } => Operand::new(Value::string(text.as_str())),
            Node::Number(number) => Operand::new(self.ideal_constant(number)?),
            _ => return Err(self.error(format_args!("can't evaluate command {node}"))),
        })
    }

    /// The natural type of a number constant.
    fn ideal_constant(&self, number: &Number) -> Result<Value, Error> {
        if let Some((real, imaginary)) = number.complex {
            return Ok(Value::Complex(real, imaginary));
        }
        let text = &number.text;
        let is_hex = text.len() > 2
            && text.starts_with('0')
            && matches!(text.as_bytes()[1], b'x' | b'X')
            && !text.contains(['p', 'P']);
        let is_float = !is_hex && !text.starts_with('\'') && text.contains(['.', 'e', 'E', 'p', 'P']);
        match (number.float.filter(|_| is_float), number.int) {
            (Some(float), _) => Ok(Value::Float(float)),
            (None, Some(int)) => Ok(Value::Int(int)),
            _ => Err(self.error(format_args!("{text} overflows int"))),
        }
    }

    pub(super) fn eval_variable(
        &mut self,
        dot: &Operand,
        node: &'t Node,
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        self.at(node);
        let Node::Variable(names) = node else {
            return Ok(Operand::default());
        };
        let value = self.variable(&names.names[0])?;
        if names.names.len() == 1 {
            self.check_no_args(&call)?;
            return Ok(value);
        }
        self.eval_chain(dot, value, (node, &names.names[1..]), call)
    }

    pub(super) fn eval_chain_node(
        &mut self,
        dot: &Operand,
        node: &'t Node,
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        self.at(node);
        let Node::Chain {
            node: inner, fields, ..
        } = node
        else {
            return Ok(Operand::default());
        };
        if let Node::Nil(_) = **inner {
            return Err(self.error(format_args!("indirection through explicit nil in {node}")));
        }
        let receiver = self.eval_untyped(dot, inner)?;
        self.eval_chain(dot, receiver, (node, fields), call)
    }

    /// The fields of a receiver, one after the other. The last one may be a method with arguments.
    pub(super) fn eval_chain(
        &mut self,
        dot: &Operand,
        receiver: Operand,
        (node, names): (&'t Node, &'t [String]),
        call: Call<'t>,
    ) -> Result<Operand, Error> {
        let Some((last, names)) = names.split_last() else {
            return Ok(receiver);
        };
        let mut receiver = receiver;
        for name in names {
            receiver = self.eval_field(dot, &receiver, (node, name), Call::without_args())?;
        }
        self.eval_field(dot, &receiver, (node, last), call)
    }
}
