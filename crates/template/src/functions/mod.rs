//! Functions of templates: their signatures, the set that a template may use, and what they know of their environment.
//! `builtin/` has those of `text/template`, `sprig/` those of Sprig.

mod builtin;
mod context;
pub(crate) mod methods;
mod sprig;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

pub use context::{Context, Environment};

use crate::value::{Operand, Value};

/// The Go type of a parameter. Arguments of another type are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`.
    Any,
    /// `reflect.Value`: any value with its static type.
    Reflect,
    Bool,
    Int,
    Int64,
    Uint32,
    Float,
    String,
    /// `map[string]interface {}`.
    Map,
    /// `time.Time`.
    Time,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::String => "string",
            Self::Map => "map[string]interface {}",
            Self::Time => "time.Time",
        }
    }

    pub(crate) fn accepts(self, value: &Value) -> bool {
        matches!(self, Self::Any | Self::Reflect) || self.name() == value.type_name()
    }
}

type Body = dyn Fn(&Context<'_>, &[Operand]) -> Result<Value, String> + Send + Sync;

/// A function with its signature.
#[derive(Clone)]
pub struct Function {
    params: Vec<Type>,
    is_variadic: bool,
    form: Form,
    body: Arc<Body>,
}

/// How a function gets its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// All arguments are evaluated first.
    Plain,
    /// Arguments are evaluated up to the one that decides: `and` and `or`.
    ShortCircuit,
    /// The first argument is the function: `call`.
    Call,
}

impl Function {
    /// A function of these parameters. Its error is the message for the template's author.
    pub fn new(
        params: Vec<Type>,
        body: impl Fn(&Context<'_>, &[Operand]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            params,
            is_variadic: false,
            form: Form::Plain,
            body: Arc::new(body),
        }
    }

    /// The same function with any number of arguments for its last parameter.
    pub fn variadic(mut self) -> Self {
        self.is_variadic = !self.params.is_empty();
        self
    }

    pub(crate) fn params(&self) -> &[Type] {
        &self.params
    }

    pub(crate) fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    /// The type of the argument at a position.
    pub(crate) fn param(&self, i: usize) -> Type {
        let last = self.params.len().saturating_sub(1);
        self.params.get(i.min(last)).copied().unwrap_or(Type::Any)
    }

    pub(crate) fn call(&self, context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
        (self.body)(context, args)
    }

    /// The arguments that `call` passes, converted to the types of the parameters.
    pub(crate) fn prepare_args(&self, name: &str, args: &[Operand]) -> Result<Vec<Operand>, String> {
        let wanted = self.params.len();
        let given = args.len();
        if self.is_variadic && given < wanted - 1 {
            let wanted = wanted - 1;
            return Err(format!(
                "wrong number of args for {name}: got {given} want at least {wanted}"
            ));
        }
        if !self.is_variadic && given != wanted {
            return Err(format!(
                "wrong number of args for {name}: got {given} want {wanted}"
            ));
        }
        let prepare = |(i, arg): (usize, &Operand)| {
            let param = self.param(i);
            match &arg.value {
                Value::Nil if !matches!(param, Type::Any | Type::Reflect | Type::Map) => Err(format!(
                    "arg {i}: value is nil; should be of type {}",
                    param.name()
                )),
                value if param.accepts(value) || matches!(value, Value::Nil) => Ok(arg.clone().unwrapped()),
                value => Err(format!(
                    "arg {i}: value has type {}; should be {}",
                    value.type_name(),
                    param.name()
                )),
            }
        };
        args.iter().enumerate().map(prepare).collect()
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}

pub(crate) fn is_short_circuit(function: &Function) -> bool {
    function.form == Form::ShortCircuit
}

pub(crate) fn is_call(function: &Function) -> bool {
    function.form == Form::Call
}

/// Roughly the bytes and items that a function produced.
pub(crate) fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

/// The functions of a template, by name.
#[derive(Clone, Debug)]
pub struct Functions(Arc<BTreeMap<String, Function>>);

static BUILTIN: LazyLock<Functions> = LazyLock::new(|| Functions::of(builtin::rows()));
static SPRIG: LazyLock<Functions> = LazyLock::new(|| {
    let rows = builtin::rows().into_iter().chain(sprig::rows());
    Functions::of(rows.collect())
});

impl Default for Functions {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Functions {
    /// Those of `text/template`.
    pub fn builtin() -> Self {
        BUILTIN.clone()
    }

    /// Those of `text/template`, Sprig, and the YAML functions of Helm. No function reads the process' environment.
    pub fn sprig() -> Self {
        SPRIG.clone()
    }

    /// Adds a function, or replaces the one of that name.
    pub fn with(mut self, name: impl Into<String>, function: Function) -> Self {
        Arc::make_mut(&mut self.0).insert(name.into(), function);
        self
    }

    /// Removes a function.
    pub fn without(mut self, name: &str) -> Self {
        Arc::make_mut(&mut self.0).remove(name);
        self
    }

    /// The names of all functions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }

    fn of(rows: Vec<Row>) -> Self {
        let function = |row: Row| {
            let mut function = Function::new(row.params.to_vec(), row.body);
            function.is_variadic = row.is_variadic;
            function.form = row.form;
            (row.name.to_owned(), function)
        };
        Self(Arc::new(rows.into_iter().map(function).collect()))
    }
}

/// A row of the tables of functions.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    params: &'static [Type],
    is_variadic: bool,
    form: Form,
    body: StaticBody,
}

type StaticBody = fn(&Context<'_>, &[Operand]) -> Result<Value, String>;

/// A function with a fixed number of parameters.
const fn row(name: &'static str, params: &'static [Type], body: StaticBody) -> Row {
    Row {
        name,
        params,
        is_variadic: false,
        form: Form::Plain,
        body,
    }
}

/// A function whose last parameter takes any number of arguments.
const fn variadic(name: &'static str, params: &'static [Type], body: StaticBody) -> Row {
    Row {
        name,
        params,
        is_variadic: true,
        form: Form::Plain,
        body,
    }
}
