//! A set of templates: parsed texts that can call each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::exec;
use crate::functions::{Context, Environment, Functions};
use crate::limits::Limits;
use crate::parser::{self, Syntax, Tree};
use crate::quote;
use crate::value::Value;

/// The value of a map's key that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// `<no value>`.
    #[default]
    Default,
    /// The zero value of the map's elements.
    Zero,
    /// An error.
    Error,
}

/// A template, with those that it has within `define` and `block`.
#[derive(Clone, Debug, Default)]
pub struct Template {
    name: String,
    delims: (String, String),
    missing_key: MissingKey,
    limits: Limits,
    functions: Functions,
    trees: BTreeMap<String, Arc<Tree>>,
}

impl Template {
    /// A template without a text, with Go's built-in functions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The delimiters of actions; an empty one is the default.
    pub fn with_delims(mut self, left: impl Into<String>, right: impl Into<String>) -> Self {
        self.delims = (left.into(), right.into());
        self
    }

    pub fn with_missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The functions that texts may use. They must be set before a text is parsed.
    pub fn with_functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Parses a text as the content of this template.
    pub fn parse(self, text: &str) -> Result<Self, Error> {
        let name = self.name.clone();
        self.parse_named(&name, text)
    }

    /// Parses a text as a further template of the set, such as another file.
    pub fn parse_named(mut self, name: &str, text: &str) -> Result<Self, Error> {
        let functions = self.functions.clone();
        let has_function = |name: &str| functions.find(name).is_some();
        let syntax = Syntax {
            delims: (&self.delims.0, &self.delims.1),
            has_function: &has_function,
        };
        for (name, tree) in parser::parse(name, text, syntax)? {
            if parser::is_empty(&tree.root) && self.trees.contains_key(&name) {
                continue;
            }
            self.trees.insert(name, Arc::new(tree));
        }
        Ok(self)
    }

    /// Executes the template with its data.
    pub fn render(&self, data: Value, environment: &Environment) -> Result<String, Error> {
        match self.find_tree(&self.name) {
            Some(tree) => self.execute(tree, data, environment),
            None => Err(Error::Execution(format!(
                "template: {}: {} is an incomplete or empty template",
                self.name,
                quote::quote(&self.name)
            ))),
        }
    }

    /// Executes another template of the set.
    pub fn render_named(&self, name: &str, data: Value, environment: &Environment) -> Result<String, Error> {
        match self.find_tree(name) {
            Some(tree) => self.execute(tree, data, environment),
            None => Err(Error::Execution(format!(
                "template: no template {} associated with template {}",
                quote::quote(name),
                quote::quote(&self.name)
            ))),
        }
    }

    fn execute(&self, tree: &Tree, data: Value, environment: &Environment) -> Result<String, Error> {
        exec::execute(self, tree, data, Context::new(self.limits, environment))
    }

    pub(crate) fn find_tree(&self, name: &str) -> Option<&Tree> {
        self.trees.get(name).map(Arc::as_ref)
    }

    pub(crate) fn missing_key(&self) -> MissingKey {
        self.missing_key
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }
}
