//! Builds a tree from the events of the YAML parser.

use std::borrow::Cow;
use std::collections::HashMap;

use compact_str::CompactString;
use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use setpoint_schema::{Map, Tree};

use super::{Error, ParsedYaml, scalar};
use crate::json::MAX_DEPTH;

/// Bytes that anchors and aliases may copy: twice the limit of a request body. An alias of a long scalar is a short
/// text, so that counting nodes alone would let a body grow a thousandfold.
const MAX_COPIED_BYTES: usize = 6 * 1024 * 1024;

/// Bytes of a node besides its text.
const NODE_BYTES: usize = size_of::<Tree>();

/// At most this many duplicate keys are reported.
const MAX_DUPLICATES: usize = 1000;

pub(super) fn first_document(text: &str) -> Result<ParsedYaml, Error> {
    let mut loader = Loader::new(text);
    let tree = loader.next_document()?.unwrap_or_default();
    Ok(ParsedYaml {
        tree,
        duplicates: loader.duplicates,
    })
}

/// All YAML documents of a stream. What their aliases may copy is limited for all of them together.
pub(super) fn all_documents(text: &str) -> Result<Vec<Tree>, Error> {
    let mut loader = Loader::new(text);
    let mut documents = Vec::new();
    while let Some(tree) = loader.next_document()? {
        documents.push(tree);
    }
    Ok(documents)
}

struct Loader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, SizedNode>,
    /// Bytes that anchors and aliases have copied.
    copied: usize,
    duplicates: Vec<String>,
}

/// A node and the size of its subtree, in bytes.
type SizedNode = (Tree, usize);

impl<'a> Loader<'a> {
    fn new(text: &'a str) -> Self {
        let mut options = Options::default();
        options.flow_nesting_limit = MAX_DEPTH;
        options.block_nesting_limit = MAX_DEPTH;
        Self {
            text,
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            copied: 0,
            duplicates: Vec::new(),
        }
    }

    /// The next YAML document, or nothing at the end of the stream.
    fn next_document(&mut self) -> Result<Option<Tree>, Error> {
        loop {
            match self.next()? {
                Some((Event::StreamStart | Event::DocumentEnd, _)) => {}
                Some((Event::DocumentStart(..), _)) => self.anchors.clear(),
                Some((Event::StreamEnd, _)) | None => return Ok(None),
                Some(event) => {
                    let tree = self.node(event, 0)?.0;
                    self.finish()?;
                    return Ok(Some(tree));
                }
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Error> {
        self.events
            .next()
            .transpose()
            .map_err(|error| syntax(&error, self.text))
    }

    /// Checks that the rest of the YAML document is well formed too.
    fn finish(&mut self) -> Result<(), Error> {
        while let Some((event, _)) = self.next()? {
            if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                break;
            }
        }
        Ok(())
    }

    fn expect_next(&mut self) -> Result<(Event<'a>, Span), Error> {
        self.next()?.ok_or(Error::Syntax {
            line: 1,
            problem: "unexpected end of the stream".into(),
        })
    }

    fn node(&mut self, (event, _): (Event<'a>, Span), depth: usize) -> Result<SizedNode, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let size = NODE_BYTES + text.len();
                (anchor, (resolve(text, style, tag.as_deref()), size))
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.map(depth)?),
            Event::Alias(anchor) => return self.alias(anchor),
            _ => (0, (Tree::Null, NODE_BYTES)),
        };
        if anchor != 0 {
            self.count_copy(node.1)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize) -> Result<SizedNode, Error> {
        let size = self.anchors.get(&anchor).map_or(NODE_BYTES, |node| node.1);
        self.count_copy(size)?;
        Ok(self.anchors.get(&anchor).cloned().unwrap_or_default())
    }

    /// Counts a copy before it is made. Nested anchors copy their nodes several times.
    fn count_copy(&mut self, bytes: usize) -> Result<(), Error> {
        self.copied += bytes;
        match self.copied > MAX_COPIED_BYTES {
            true => Err(Error::Aliases),
            false => Ok(()),
        }
    }

    fn list(&mut self, depth: usize) -> Result<SizedNode, Error> {
        let (mut items, mut size) = (Vec::new(), NODE_BYTES);
        loop {
            let event = self.expect_next()?;
            if event.0 == Event::SequenceEnd {
                return Ok((Tree::List(items), size));
            }
            let (item, item_size) = self.node(event, depth + 1)?;
            items.push(item);
            size += item_size;
        }
    }

    fn map(&mut self, depth: usize) -> Result<SizedNode, Error> {
        let (mut map, mut merged, mut size) = (Map::default(), Vec::new(), NODE_BYTES);
        loop {
            let event = self.expect_next()?;
            if event.0 == Event::MappingEnd {
                break;
            }
            let merges = is_merge(&event.0);
            let (key, key_size) = self.node(event, depth + 1)?;
            let value = self.expect_next()?;
            let line = value.1.start.line();
            let (value, value_size) = self.node(value, depth + 1)?;
            size += key_size + value_size;
            match merges {
                true => merged.push(value),
                false => self.set(&mut map, &key, value, line)?,
            }
        }
        merged.into_iter().for_each(|from| merge(&mut map, from));
        Ok((Tree::Map(map), size))
    }

    fn set(&mut self, map: &mut Map, key: &Tree, value: Tree, line: usize) -> Result<(), Error> {
        let name = key_text(key)?;
        if map.insert(name, value).is_some() && self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(format!(
                "line {line}: key {} already set in map",
                display_key(key)
            ));
        }
        Ok(())
    }
}

fn resolve(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Tree {
    let suffix = tag.and_then(Tag::core_suffix);
    match (style, suffix) {
        (_, Some("str")) => Tree::Str(text.into()),
        (ScalarStyle::Plain, _) | (_, Some("int" | "float" | "bool" | "null")) => scalar::resolve(&text),
        _ => Tree::Str(text.into()),
    }
}

fn is_merge(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<")
}

/// Merges a map, or each map of a list (`<<`): existing keys win.
fn merge(map: &mut Map, from: Tree) {
    match from {
        Tree::Map(from) => {
            for (key, value) in from {
                if !map.contains_key(&key) {
                    map.push(key, value);
                }
            }
        }
        Tree::List(maps) => maps.into_iter().for_each(|from| merge(map, from)),
        _ => {}
    }
}

/// A key as a JSON key.
fn key_text(key: &Tree) -> Result<CompactString, Error> {
    match key {
        Tree::Str(text) => Ok(text.clone()),
        Tree::Int(_) | Tree::Float(_) | Tree::Bool(_) => Ok(display_key(key).into()),
        Tree::Null => Err(Error::Key("nil")),
        Tree::List(_) => Err(Error::Key("slice")),
        Tree::Map(_) => Err(Error::Key("map")),
    }
}

/// A key as error messages print it.
fn display_key(key: &Tree) -> String {
    match key {
        Tree::Str(text) => format!("{text:?}"),
        Tree::Int(number) => number.to_string(),
        Tree::Float(number) => number.to_string(),
        Tree::Bool(value) => value.to_string(),
        _ => String::new(),
    }
}

/// The parser's error with kube-apiserver's message, where there is one.
fn syntax(error: &ScanError, text: &str) -> Error {
    use ErrorKind::*;
    let expects_node = text.trim_end().ends_with(['[', ',']);
    let problem = match error.kind() {
        RecursionLimitExceeded => return Error::Depth,
        ExpectedNodeContent => "did not find expected node content",
        UnclosedFlowCollection { .. } | UnexpectedEofFlowSequence if expects_node => {
            "did not find expected node content"
        }
        ExpectedFlowSequenceSeparator | UnexpectedEofFlowSequence => "did not find expected ',' or ']'",
        UnclosedFlowCollection { open: '[' } => "did not find expected ',' or ']'",
        ExpectedFlowMappingSeparator | UnexpectedEofFlowMapping => "did not find expected ',' or '}'",
        UnclosedFlowCollection { .. } => "did not find expected ',' or '}'",
        ExpectedBlockMappingKey => "did not find expected key",
        ExpectedBlockSequenceEntry => "did not find expected '-' indicator",
        ExpectedDocumentStart => "did not find expected <document start>",
        TabNotAllowed | TabInBlockIndentation | TabInIndentation => {
            "found character that cannot start any token"
        }
        UnclosedQuotedScalar => "found unexpected end of stream",
        SimpleKeyExpected => "could not find expected ':'",
        UnknownAnchor => "unknown anchor referenced",
        _ => {
            return Error::Syntax {
                line: error.marker().line(),
                problem: error.info(),
            };
        }
    };
    Error::Syntax {
        line: error.marker().line(),
        problem: problem.into(),
    }
}
