//! The `managedFields` of an object: who owns what.
//!
//! An entry is known by its manager, operation and subresource, and for updates also by the API version; a manager that
//! applies keeps one entry across versions. Entries are written in a fixed order, so that equal ownership has equal bytes.

use compact_str::CompactString;

use super::element::NotAStep;
use super::field_set::FieldSet;
use super::versions::Changes;
use crate::tree::{Map, Tree};

/// Update managers beyond this number are merged into `ancient-changes`.
pub const MOST_UPDATE_MANAGERS: usize = 10;

/// The manager of the oldest updates.
const ANCIENT: &str = "ancient-changes";

const PATH: [&str; 2] = ["metadata", "managedFields"];
const FIELDS_V1: &str = "FieldsV1";

/// All owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    entries: Vec<Entry>,
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: Id,
    pub api_version: CompactString,
    /// RFC 3339 in whole seconds. An applier that changed nothing has none.
    pub time: Option<CompactString>,
    pub fields: FieldSet,
}

/// By what an entry is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub manager: CompactString,
    pub operation: Operation,
    /// Empty for appliers.
    pub version: CompactString,
    /// Empty for the object itself.
    pub subresource: CompactString,
}

/// How a manager came to own something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

/// Why `managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    #[error(transparent)]
    Fields(#[from] NotAStep),
}

// === impl Managers ===

impl Managers {
    /// The managers of an object.
    pub fn of(object: &Tree) -> Result<Managers, Unreadable> {
        let list = object.at(&PATH).and_then(Tree::as_list).unwrap_or_default();
        let mut managers = Managers::default();
        for (at, entry) in list.iter().enumerate() {
            let entry = Entry::read(entry, at)?;
            managers.entries.retain(|known| known.id != entry.id);
            managers.entries.push(entry);
        }
        Ok(managers)
    }

    /// Owners as they are given, even those that are known by the same.
    pub(super) fn of_entries(entries: Vec<Entry>) -> Managers {
        Managers { entries }
    }

    /// The managers before a write: those the request gives, unless it gives none that can be read, or speaks of a
    /// subresource; then those of the old object. A list that is empty, or has one empty entry, asks for no managers.
    pub(super) fn before_update(old: &Tree, new: &Tree, subresource: &str) -> Managers {
        let kept = || Managers::of(old).unwrap_or_default();
        if !subresource.is_empty() {
            return kept();
        }
        match new.at(&PATH) {
            Some(Tree::List(list)) if is_reset(list) => Managers::default(),
            _ => Managers::of(new)
                .ok()
                .filter(|given| !given.is_empty())
                .unwrap_or_else(kept),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn find(&self, id: &Id) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Takes out what is known of a manager.
    pub(super) fn take(&mut self, id: &Id) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.id == *id)?;
        Some(self.entries.remove(at))
    }

    /// Keeps only the entries that are to stay, which may be changed on the way.
    pub(super) fn retain(&mut self, stays: impl FnMut(&mut Entry) -> bool) {
        self.entries.retain_mut(stays);
    }

    /// Everything anyone owns.
    pub(super) fn all_fields(&self) -> FieldSet {
        let fields = self.entries.iter().map(|entry| entry.fields.clone());
        fields.fold(FieldSet::default(), FieldSet::union)
    }

    /// Sets what a manager owns.
    pub(super) fn set(&mut self, entry: Entry) {
        self.entries.retain(|known| known.id != entry.id);
        self.entries.push(entry);
    }

    /// Takes from everyone but one what another has changed or removed.
    pub(super) fn lose(&mut self, changes: &Changes, spared: Option<&Id>) {
        for entry in self.entries.iter_mut().filter(|entry| Some(&entry.id) != spared) {
            changes.seen_by(entry).take_from(&mut entry.fields);
        }
        self.drop_empty();
    }

    /// Entries that own nothing are gone.
    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Merges the oldest update managers until there are no more than allowed. Only those of the same API version are
    /// merged, and the first of a version alone keeps its name.
    pub(super) fn cap(&mut self, most: usize) {
        if self.entries.len() <= most {
            return;
        }
        let mut updaters: Vec<Entry> = self.entries.extract_if(.., |entry| entry.is_update()).collect();
        updaters.sort_by(|left, right| left.age().cmp(&right.age()));
        let mut at = 0;
        while updaters.len() > most && at < updaters.len() {
            let version = updaters[at].api_version.clone();
            match updaters[..at]
                .iter()
                .position(|earlier| earlier.api_version == version)
            {
                None => at += 1,
                Some(first) => {
                    let merged = updaters.remove(at);
                    let ancient = Id::new(ANCIENT, Operation::Update, &version, "");
                    let known = updaters.iter().position(|entry| entry.id == ancient);
                    updaters[known.unwrap_or(first)].swallow(merged, ancient);
                }
            }
        }
        self.entries.append(&mut updaters);
    }

    /// Writes the managers into an object, in their order.
    pub(super) fn store(mut self, object: &mut Tree) {
        if self.entries.is_empty() {
            object.take(&PATH);
            return;
        }
        self.entries.sort_by(|left, right| left.rank().cmp(&right.rank()));
        let entries: Vec<Tree> = self.entries.into_iter().map(Entry::write).collect();
        object.set(&PATH, entries);
    }
}

/// Keeps the old times if nothing else of an object has changed: a write that only moves times is no write.
pub fn settle_times(old: &Tree, new: &mut Tree) {
    let (Some(before), Some(after)) = (old.at(&PATH), new.at(&PATH)) else {
        return;
    };
    if !are_same_but_times(before, after) {
        return;
    }
    let before = before.clone();
    let after = new.take(&PATH);
    new.set(&PATH, before);
    if let Some(after) = after.filter(|_| !new.means_same(old)) {
        new.set(&PATH, after);
    }
}

fn are_same_but_times(before: &Tree, after: &Tree) -> bool {
    let [before, after] = [before, after].map(|entries| entries.as_list().unwrap_or_default());
    let mut pairs = before.iter().zip(after);
    before.len() == after.len() && pairs.all(|(before, after)| untimed(before).eq(untimed(after)))
}

fn untimed(entry: &Tree) -> impl Iterator<Item = (&str, &Tree)> {
    let pairs = entry.as_map().into_iter().flat_map(Map::iter);
    pairs.filter(|(key, _)| *key != "time")
}

fn is_reset(list: &[Tree]) -> bool {
    match list {
        [] => true,
        [only] => only.as_map().is_none_or(Map::is_empty),
        _ => false,
    }
}

// === impl Entry ===

impl Entry {
    fn read(entry: &Tree, at: usize) -> Result<Entry, Unreadable> {
        let text = |key: &str| entry.str_at(&[key]).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(Unreadable::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(Unreadable::ApiVersion);
        }
        match text("fieldsType") {
            FIELDS_V1 => {}
            "" => return Err(Unreadable::NoFieldsType(at)),
            other => return Err(Unreadable::FieldsType(other.to_owned(), at)),
        }
        let fields = entry.get("fieldsV1").map(FieldSet::from_fields_v1).transpose()?;
        Ok(Entry {
            id: Id::new(
                text("manager"),
                operation,
                text("apiVersion"),
                text("subresource"),
            ),
            api_version: text("apiVersion").into(),
            time: entry.str_at(&["time"]).map(CompactString::from),
            fields: fields.unwrap_or_default(),
        })
    }

    fn write(self) -> Tree {
        let mut map = Map::with_capacity(7);
        map.push("manager", self.id.manager);
        map.push("operation", self.id.operation.as_str());
        map.push("apiVersion", self.api_version);
        if let Some(time) = self.time {
            map.push("time", time);
        }
        map.push("fieldsType", FIELDS_V1);
        map.push("fieldsV1", self.fields.to_fields_v1());
        if !self.id.subresource.is_empty() {
            map.push("subresource", self.id.subresource);
        }
        map.into()
    }

    fn is_update(&self) -> bool {
        self.id.operation == Operation::Update
    }

    /// Appliers first, then by time, manager, version and subresource.
    fn rank(&self) -> impl Ord + '_ {
        let Id {
            manager,
            operation,
            subresource,
            ..
        } = &self.id;
        (operation, &self.time, manager, &self.api_version, subresource)
    }

    fn age(&self) -> impl Ord + '_ {
        (&self.time, &self.id)
    }

    /// Becomes the entry of the oldest updates, with what a younger one owned.
    fn swallow(&mut self, younger: Entry, ancient: Id) {
        self.id = ancient;
        self.time = younger.time;
        self.fields = std::mem::take(&mut self.fields).union(younger.fields);
    }
}

// === impl Id and Operation ===

impl Id {
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Id {
            manager: manager.into(),
            operation,
            version: version.into(),
            subresource: subresource.into(),
        }
    }
}

impl std::fmt::Display for Id {
    /// As conflicts name it: `"m" with subresource "status" using v1`.
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "{:?}", self.manager.as_str())?;
        if !self.subresource.is_empty() {
            write!(text, " with subresource {:?}", self.subresource.as_str())?;
        }
        if self.operation == Operation::Update {
            write!(text, " using {}", self.version)?;
        }
        Ok(())
    }
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}
