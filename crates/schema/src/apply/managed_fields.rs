//! The `managedFields` of an object: which manager owns which fields.
//!
//! An entry is identified by its manager, operation and subresource, and for updates also by the API version; a manager
//! that applies keeps one entry across versions. Entries are written in a fixed order, so that equal ownership has equal bytes.

use std::collections::HashMap;

use compact_str::CompactString;

use super::field_set::FieldSet;
use super::path_element::InvalidPathElement;
use super::versions::VersionedComparison;
use crate::tree::{Map, Tree};

/// Update managers beyond this number are merged into `ancient-changes`.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager of the merged oldest updates.
const ANCIENT: &str = "ancient-changes";

const PATH: [&str; 2] = ["metadata", "managedFields"];
pub(super) const FIELDS_V1: &str = "FieldsV1";

/// The managers of an object with their field sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    entries: Vec<ManagedFieldsEntry>,
}

/// The fields that one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    pub id: ManagerId,
    pub api_version: CompactString,
    /// RFC 3339 in whole seconds. Absent for an applier that changed nothing.
    pub time: Option<CompactString>,
    pub fields: FieldSet,
}

/// The identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerId {
    pub manager: CompactString,
    pub operation: Operation,
    /// Empty for appliers.
    pub version: CompactString,
    /// Empty for the object itself.
    pub subresource: CompactString,
}

/// The operation that made a manager the owner of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

/// Why `managedFields` cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    #[error(transparent)]
    Fields(#[from] InvalidPathElement),
}

// === impl ManagedFields ===

impl ManagedFields {
    /// The managers of an object.
    pub fn of(object: &Tree) -> Result<ManagedFields, ManagedFieldsError> {
        let list = object.at(&PATH).and_then(Tree::as_list).unwrap_or_default();
        let entries = list.iter().enumerate();
        let entries = entries.map(|(at, entry)| ManagedFieldsEntry::read(entry, at));
        let mut managers = ManagedFields {
            entries: entries.collect::<Result<_, _>>()?,
        };
        managers.keep_last();
        Ok(managers)
    }

    /// Keeps the last entry of each manager.
    fn keep_last(&mut self) {
        let positions = self.entries.iter().enumerate();
        let last: HashMap<ManagerId, usize> = positions.map(|(at, entry)| (entry.id.clone(), at)).collect();
        if last.len() < self.entries.len() {
            let mut at = 0..;
            self.entries
                .retain(|entry| last.get(&entry.id).copied() == at.next());
        }
    }

    /// Entries as they are, duplicates included.
    pub(super) fn of_entries(entries: Vec<ManagedFieldsEntry>) -> ManagedFields {
        ManagedFields { entries }
    }

    /// The managers before a write: those in the request, unless it has none that can be decoded, or is for a subresource;
    /// then those of the old object. A list that is empty, or has one empty entry, resets the managers.
    pub(super) fn before_update(old: &Tree, new: &Tree, subresource: &str) -> ManagedFields {
        let stored = || ManagedFields::of(old).unwrap_or_default();
        if !subresource.is_empty() {
            return stored();
        }
        match new.at(&PATH) {
            Some(Tree::List(list)) if is_reset(list) => ManagedFields::default(),
            _ => ManagedFields::of(new)
                .ok()
                .filter(|managers| !managers.is_empty())
                .unwrap_or_else(stored),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &[ManagedFieldsEntry] {
        &self.entries
    }

    pub(super) fn find(&self, id: &ManagerId) -> Option<&ManagedFieldsEntry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Removes and returns the entry of a manager.
    pub(super) fn take(&mut self, id: &ManagerId) -> Option<ManagedFieldsEntry> {
        let at = self.entries.iter().position(|entry| entry.id == *id)?;
        Some(self.entries.remove(at))
    }

    /// Keeps the entries for which the function returns true; it may change them.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut ManagedFieldsEntry) -> bool) {
        self.entries.retain_mut(keep);
    }

    /// The union of all field sets.
    pub(super) fn all_fields(&self) -> FieldSet {
        let fields = self.entries.iter().map(|entry| entry.fields.clone());
        fields.fold(FieldSet::default(), FieldSet::union)
    }

    /// Sets the entry of a manager.
    pub(super) fn set(&mut self, entry: ManagedFieldsEntry) {
        self.entries.retain(|known| known.id != entry.id);
        self.entries.push(entry);
    }

    /// Removes the changed and removed paths from the field sets of all managers but one.
    pub(super) fn remove_changed(&mut self, changes: &VersionedComparison, except: Option<&ManagerId>) {
        for entry in self.entries.iter_mut().filter(|entry| Some(&entry.id) != except) {
            changes.in_version_of(entry).remove_from(&mut entry.fields);
        }
        self.drop_empty();
    }

    /// Removes the entries that own nothing.
    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Merges the oldest update managers until there are at most `max`. Only those of the same API version are merged, and
    /// a single one of a version keeps its name.
    pub(super) fn cap(&mut self, max: usize) {
        if self.entries.len() <= max {
            return;
        }
        let mut updaters: Vec<ManagedFieldsEntry> =
            self.entries.extract_if(.., |entry| entry.is_update()).collect();
        updaters.sort_by(|left, right| left.age().cmp(&right.age()));
        let mut at = 0;
        while updaters.len() > max && at < updaters.len() {
            let version = updaters[at].api_version.clone();
            match updaters[..at]
                .iter()
                .position(|earlier| earlier.api_version == version)
            {
                None => at += 1,
                Some(first) => {
                    let merged = updaters.remove(at);
                    let ancient = ManagerId::new(ANCIENT, Operation::Update, &version, "");
                    let known = updaters.iter().position(|entry| entry.id == ancient);
                    updaters[known.unwrap_or(first)].absorb(merged, ancient);
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
        self.entries
            .sort_by(|left, right| left.sort_key().cmp(&right.sort_key()));
        let entries: Vec<Tree> = self.entries.into_iter().map(ManagedFieldsEntry::write).collect();
        object.set(&PATH, entries);
    }
}

/// Keeps the old timestamps of `managedFields` if nothing else in the object has changed, so that such a write is a no-op.
pub fn keep_timestamps_if_unchanged(old: &Tree, new: &mut Tree) {
    let (Some(before), Some(after)) = (old.at(&PATH), new.at(&PATH)) else {
        return;
    };
    if !are_same_but_times(before, after) {
        return;
    }
    let before = before.clone();
    let after = new.take(&PATH);
    new.set(&PATH, before);
    if let Some(after) = after.filter(|_| !new.semantic_eq(old)) {
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

// === impl ManagedFieldsEntry ===

impl ManagedFieldsEntry {
    fn read(entry: &Tree, at: usize) -> Result<ManagedFieldsEntry, ManagedFieldsError> {
        let text = |key: &str| entry.str_at(&[key]).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(ManagedFieldsError::ApiVersion);
        }
        match text("fieldsType") {
            FIELDS_V1 => {}
            "" => return Err(ManagedFieldsError::NoFieldsType(at)),
            other => return Err(ManagedFieldsError::FieldsType(other.to_owned(), at)),
        }
        let fields = entry.get("fieldsV1").map(FieldSet::from_fields_v1).transpose()?;
        Ok(ManagedFieldsEntry {
            id: ManagerId::new(
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

    /// The sort key: appliers first, then by time, manager, version and subresource.
    fn sort_key(&self) -> impl Ord + '_ {
        let ManagerId {
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

    /// Becomes the entry of the oldest updates, with the fields of a younger one added.
    fn absorb(&mut self, younger: ManagedFieldsEntry, ancient: ManagerId) {
        self.id = ancient;
        self.time = younger.time;
        self.fields = std::mem::take(&mut self.fields).union(younger.fields);
    }
}

// === impl ManagerId and Operation ===

impl ManagerId {
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        ManagerId {
            manager: manager.into(),
            operation,
            version: version.into(),
            subresource: subresource.into(),
        }
    }
}

impl std::fmt::Display for ManagerId {
    /// As in conflict messages: `"m" with subresource "status" using v1`.
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
