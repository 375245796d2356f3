//! The Common Expression Language (CEL) with Kubernetes' libraries, types and cost limits.
//!
//! An expression is compiled once: parsed, checked against the types of its variables, its greatest cost estimated, and
//! planned. A [`Program`] is then evaluated on objects without converting them: values borrow the nodes of the object.
//! Evaluation counts its cost and stops at a limit, so that no expression takes longer than its caller allows.
//!
//! This crate has no I/O and knows neither CustomResourceDefinitions nor policies.
//!
//! Start reading at [`Program`].

mod ast;
mod cel_type;
mod check;
mod declarations;
mod estimate;
mod eval;
mod lexer;
mod library;
mod macros;
mod opaque;
mod parser;
mod plan;
mod program;
mod source;
mod time;
mod validate;
mod value;
mod value_schema;

pub use cel_type::{ObjectType, Type};
pub use estimate::Range;
pub use eval::{DeferredFields, EvalError};
pub use library::authorizer::{Authorizer, Check, CheckTarget, Decision, ResourceCheck};
pub use parser::is_identifier;
pub use program::{Environment, Evaluation, Program};
pub use source::CompileError;
pub use value::{Value, display};
pub use value_schema::{ListSemantics, ValueSchema, escape};
