//! Arguments of functions: their evaluation in the type of the parameter.

use super::State;
use super::call::Call;
use crate::error::Error;
use crate::functions::Type;
use crate::parser::node::Operand as Node;
use crate::value::{Map, Operand, Value};

impl<'t> State<'_, 't> {
    /// The value of an argument, which must have the parameter's type.
    pub(super) fn eval_arg(&mut self, dot: &Operand, param: Type, node: &'t Node) -> Result<Operand, Error> {
        self.at(node);
        match node {
            Node::Dot(_) => self.validate(dot.clone(), param),
            Node::Nil(_) => match param.nil() {
                Some(nil) => Ok(nil),
                None => Err(self.error(format_args!("cannot assign nil to {}", param.name()))),
            },
            Node::Field(_)
            | Node::Variable(_)
            | Node::Pipe(_)
            | Node::Function { .. }
            | Node::Chain { .. } => {
                let value = self.eval_untyped(dot, node)?;
                self.validate(value, param)
            }
            _ => self.eval_literal(dot, param, node),
        }
    }

    /// The value of a node that is no constant.
    pub(super) fn eval_untyped(&mut self, dot: &Operand, node: &'t Node) -> Result<Operand, Error> {
        self.at(node);
        match node {
            Node::Field(names) => {
                let chain = (node, &names.names[..]);
                self.eval_chain(dot, dot.clone(), chain, Call::without_args())
            }
            Node::Variable(_) => self.eval_variable(dot, node, Call::without_args()),
            Node::Pipe(pipe) => self.eval_pipeline(dot, pipe),
            Node::Function { .. } => self.eval_function(dot, node, node, Call::without_args()),
            Node::Chain { .. } => self.eval_chain_node(dot, node, Call::without_args()),
            _ => self.eval_constant(dot, node),
        }
    }

    /// The value of a constant in the parameter's type.
    fn eval_literal(&mut self, dot: &Operand, param: Type, node: &'t Node) -> Result<Operand, Error> {
        let value = match (param, node) {
            (Type::Any | Type::Reflect, _) => return self.eval_constant(dot, node),
            (Type::Bool, Node::Bool(_, value)) => Some(Value::Bool(*value)),
            (Type::String, Node::Text { text, .. }) => Some(Value::string(text.as_str())),
            (Type::Int, Node::Number(number)) => number.int.map(Value::Int),
            (Type::Int64, Node::Number(number)) => number.int.map(Value::Int64),
            (Type::Uint32, Node::Number(number)) => number
                .uint
                .map(|value| Value::Uint64(value & u64::from(u32::MAX))),
            (Type::Float, Node::Number(number)) => number.float.map(Value::Float),
            _ => None,
        };
        if let Some(value) = value {
            return Ok(Operand::new(value));
        }
        Err(match param.constant_name() {
            Some(expected) => self.error(format_args!("expected {expected}; found {node}")),
            None => self.error(format_args!(
                "can't handle {node} for arg of type {}",
                param.name()
            )),
        })
    }

    /// A value that can be passed to a parameter of the type.
    pub(super) fn validate(&self, operand: Operand, param: Type) -> Result<Operand, Error> {
        if !operand.is_valid() {
            return match param.nil() {
                Some(nil) => Ok(nil),
                None => Err(self.error(format_args!("invalid value; expected {}", param.name()))),
            };
        }
        if matches!(param, Type::Any | Type::Reflect) || (param.accepts(&operand.value)) {
            return Ok(operand);
        }
        let actual = match operand.is_nil_interface() {
            true => "interface {}",
            false => operand.value.type_name(),
        };
        let expected = param.name();
        Err(self.error(format_args!(
            "wrong type for value; expected {expected}; got {actual}"
        )))
    }
}

impl Type {
    /// Nil as this type, if it has one.
    pub(super) fn nil(self) -> Option<Operand> {
        match self {
            Self::Any => Some(Operand::interface(Value::Nil)),
            Self::Reflect => Some(Operand::default()),
            Self::Map => Some(Operand::new(Value::Map(Map::nil()))),
            _ => None,
        }
    }

    /// The constant that the type needs, in error messages.
    fn constant_name(self) -> Option<&'static str> {
        match self {
            Self::Bool => Some("bool"),
            Self::String => Some("string"),
            Self::Int | Self::Int64 => Some("integer"),
            Self::Uint32 => Some("unsigned integer"),
            Self::Float => Some("float"),
            _ => None,
        }
    }
}
