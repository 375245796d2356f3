//! The parser: items to nodes, with the rules and error messages of Go's `text/template/parse/parse.go`. Start at
//! [`parse`]; `control.rs` has the actions with keywords, `pipeline.rs` the expressions.

mod control;
pub(crate) mod node;
pub(crate) mod number;
mod pipeline;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::lexer::{Item, ItemKind, Lexer};
use crate::quote;
use node::{List, Node, Text};

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) root: List,
    pub(crate) source: Arc<Source>,
}

/// The text that a tree was parsed from, which positions refer to.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What the parser must know besides the text.
#[derive(Clone, Copy)]
pub(crate) struct Syntax<'a> {
    pub(crate) delims: (&'a str, &'a str),
    pub(crate) has_function: &'a dyn Fn(&str) -> bool,
}

/// Nested pipelines and branches, beyond which a template is rejected.
const MAX_DEPTH: usize = 150;

/// Parses a text to the template of the name and those that it has within `define` and `block`.
pub(crate) fn parse(name: &str, text: &str, syntax: Syntax<'_>) -> Result<BTreeMap<String, Tree>, Error> {
    let mut lexer = Lexer::new(text, syntax.delims);
    lexer.set_keywords(
        !(syntax.has_function)("break"),
        !(syntax.has_function)("continue"),
    );
    let source = Arc::new(Source {
        name: name.to_owned(),
        text: text.to_owned(),
    });
    let mut shared = Shared {
        name,
        lexer,
        syntax,
        source,
        trees: BTreeMap::new(),
        depth: 0,
    };
    let mut parser = Parser::new(&mut shared);
    let root = parser.parse_root()?;
    parser.add(name.to_owned(), root)?;
    Ok(shared.trees)
}

/// What the parsers of one text share.
struct Shared<'a> {
    name: &'a str,
    lexer: Lexer<'a>,
    syntax: Syntax<'a>,
    source: Arc<Source>,
    trees: BTreeMap<String, Tree>,
    depth: usize,
}

/// The parser of one tree. A `define` or `block` has a parser of its own, with its own variables.
struct Parser<'s, 'a> {
    shared: &'s mut Shared<'a>,
    tokens: [Item; 3],
    peek_count: usize,
    vars: Vec<String>,
    /// The line of the left delimiter; 0 outside of actions.
    action_line: usize,
    range_depth: usize,
}

/// The result of parsing text or an action.
enum Clause {
    Node(Node),
    End,
    Else { pos: usize },
}

impl<'s, 'a> Parser<'s, 'a> {
    fn new(shared: &'s mut Shared<'a>) -> Self {
        let blank = || Item {
            kind: ItemKind::Error,
            pos: 0,
            text: String::new(),
            line: 0,
        };
        Self {
            shared,
            tokens: [blank(), blank(), blank()],
            peek_count: 0,
            vars: vec!["$".to_owned()],
            action_line: 0,
            range_depth: 0,
        }
    }

    fn parse_root(&mut self) -> Result<List, Error> {
        let mut root = List {
            pos: self.peek().pos,
            nodes: Vec::new(),
        };
        while self.peek().kind != ItemKind::Eof {
            if self.peek().kind == ItemKind::LeftDelim {
                let delim = self.next();
                if self.next_non_space().kind == ItemKind::Define {
                    Parser::new(self.shared).parse_define()?;
                    continue;
                }
                self.backup2(delim);
            }
            match self.text_or_action()? {
                Clause::Node(node) => root.nodes.push(node),
                Clause::End => return Err(self.error("unexpected {{end}}")),
                Clause::Else { .. } => return Err(self.error("unexpected {{else}}")),
            }
        }
        Ok(root)
    }

    fn parse_define(&mut self) -> Result<(), Error> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(ItemKind::RightDelim, CONTEXT)?;
        let (root, end) = self.item_list()?;
        if let Clause::Else { .. } = end {
            return Err(self.error(format_args!("unexpected {{{{else}}}} in {CONTEXT}")));
        }
        self.add(name, root)
    }

    fn template_name(&mut self, token: &Item, context: &str) -> Result<String, Error> {
        match token.kind {
            ItemKind::String | ItemKind::RawString => {
                quote::unquote(&token.text).map_err(|error| self.error(error))
            }
            _ => Err(self.unexpected(token, context)),
        }
    }

    /// Adds a tree to the set. A tree with content may replace an empty one, but not another with content.
    fn add(&mut self, name: String, root: List) -> Result<(), Error> {
        let is_free = self
            .shared
            .trees
            .get(&name)
            .is_none_or(|tree| is_empty(&tree.root));
        if !is_free {
            return match is_empty(&root) {
                true => Ok(()),
                false => Err(self.error(format_args!(
                    "template: multiple definition of template {}",
                    quote::quote(&name)
                ))),
            };
        }
        let tree = Tree {
            name: name.clone(),
            root,
            source: self.shared.source.clone(),
        };
        self.shared.trees.insert(name, tree);
        Ok(())
    }

    /// Nodes up to an `end` or `else`.
    fn item_list(&mut self) -> Result<(List, Clause), Error> {
        let mut list = List {
            pos: self.peek_non_space().pos,
            nodes: Vec::new(),
        };
        while self.peek_non_space().kind != ItemKind::Eof {
            match self.text_or_action()? {
                Clause::Node(node) => list.nodes.push(node),
                end => return Ok((list, end)),
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn text_or_action(&mut self) -> Result<Clause, Error> {
        let token = self.next_non_space();
        match token.kind {
            ItemKind::Text => Ok(Clause::Node(Node::Text(Text {
                pos: token.pos,
                text: token.text,
            }))),
            ItemKind::LeftDelim => {
                self.action_line = token.line;
                let parsed = self.action();
                self.action_line = 0;
                parsed
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    /// Runs a function one level deeper, within the limit.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.shared.depth >= MAX_DEPTH {
            return Err(self.error("max expression depth exceeded"));
        }
        self.shared.depth += 1;
        let parsed = parse(self);
        self.shared.depth -= 1;
        parsed
    }
}

/// Whether a tree has nothing but spaces.
pub(crate) fn is_empty(list: &List) -> bool {
    list.nodes.iter().all(|node| match node {
        Node::Text(text) => text.text.chars().all(crate::unicode::is_space),
        _ => false,
    })
}
