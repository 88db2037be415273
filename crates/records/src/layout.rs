//! Layout of a column: its nodes and buffers in each record batch (Arrow columnar format, version 1.5).

use arrow_schema::{DataType, Field, UnionMode};

/// Nodes and buffers of a column, with those of its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) nodes: usize,
    /// Buffers of each array, in order. Arrays of views have further ones, as many as the batch says.
    pub(crate) arrays: Vec<Buffers>,
    /// Least contents of the first buffers of each array.
    pub(crate) contents: Vec<Vec<Content>>,
    /// Identifiers of its dictionaries, those of children first.
    pub(crate) dictionaries: Vec<i64>,
    /// Layout of the values of each dictionary.
    pub(crate) values: Vec<Layout>,
}

/// Content of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A bit for each value, if there are nulls.
    Validity,
    /// A bit for each value.
    Bits,
    /// So many bytes for each value.
    Values(u64),
    /// So many bytes for each value, and for its end.
    Offsets(u64),
}

impl Content {
    /// Returns whether a buffer of so many bytes holds it.
    pub(crate) fn fits(self, bytes: u64, values: u64, nulls: u64) -> bool {
        let holds = |width: u64, count: u64| {
            // Padded values of other widths need not end where a value does.
            count.checked_mul(width).is_some_and(|needed| bytes >= needed)
                && (!width.is_power_of_two() || bytes.is_multiple_of(width))
        };
        match self {
            Content::Validity => nulls == 0 || bytes >= values.div_ceil(8),
            Content::Bits => bytes >= values.div_ceil(8),
            Content::Values(width) => holds(width, values),
            Content::Offsets(width) => holds(width, if values == 0 { 0 } else { values + 1 }),
        }
    }
}

/// Contents of the first buffers of an array.
fn contents(data_type: &DataType) -> Vec<Content> {
    use Content::*;
    use DataType as Type;
    match data_type {
        Type::Null | Type::RunEndEncoded(..) => vec![],
        Type::Struct(_) | Type::FixedSizeList(..) => vec![Validity],
        Type::Union(_, UnionMode::Sparse) => vec![Values(1)],
        Type::Union(_, UnionMode::Dense) => vec![Values(1), Values(4)],
        Type::Boolean => vec![Validity, Bits],
        Type::Utf8 | Type::Binary | Type::List(_) | Type::Map(..) => vec![Validity, Offsets(4)],
        Type::LargeUtf8 | Type::LargeBinary | Type::LargeList(_) => vec![Validity, Offsets(8)],
        Type::ListView(_) => vec![Validity, Values(4), Values(4)],
        Type::LargeListView(_) => vec![Validity, Values(8), Values(8)],
        Type::Utf8View | Type::BinaryView => vec![Validity, Values(16)],
        Type::FixedSizeBinary(width) => vec![Validity, Values(u64::try_from(*width).unwrap_or(0))],
        Type::Dictionary(keys, _) => contents(keys),
        other => vec![Validity, Values(other.primitive_width().unwrap_or(0) as u64)],
    }
}

/// Returns why the library of Arrow could not hold a column of a type; none if it can.
pub(crate) fn unsound(field: &Field) -> Option<&'static str> {
    use DataType::*;
    let of_type = match field.data_type() {
        Map(entries, _) => match entries.data_type() {
            Struct(fields) if fields.len() == 2 => unsound(entries),
            _ => Some("a map whose entries are not a key and a value"),
        },
        FixedSizeBinary(..0) | FixedSizeList(_, ..0) => Some("a column of a negative width"),
        RunEndEncoded(ends, values) => match ends.data_type() {
            Int16 | Int32 | Int64 => unsound(values),
            _ => Some("run ends that are not whole numbers"),
        },
        List(child) | LargeList(child) | ListView(child) | LargeListView(child) | FixedSizeList(child, _) => {
            unsound(child)
        }
        Struct(fields) => fields.iter().find_map(|field| unsound(field)),
        Union(fields, _) => fields.iter().find_map(|(_, field)| unsound(field)),
        _ => None,
    };
    match field.data_type() {
        Dictionary(_, values) => unsound(&Field::new("", (**values).clone(), true)),
        _ => of_type,
    }
}

/// Buffers of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffers {
    Fixed(usize),
    /// So many, and those of variable number.
    Views(usize),
}

impl Layout {
    /// The layout of a column.
    pub(crate) fn of(field: &Field) -> Layout {
        let mut layout = Layout::default();
        layout.add(field);
        layout
    }

    fn add(&mut self, field: &Field) {
        self.add_type(field.data_type());
        if let DataType::Dictionary(_, values) = field.data_type() {
            self.add_dictionaries_of(values);
            // The only place in which the library keeps the identifier.
            #[expect(deprecated)]
            self.dictionaries.extend(field.dict_id());
        }
    }

    /// Adds the dictionaries within the values of one, which are not in the batch.
    fn add_dictionaries_of(&mut self, values: &DataType) {
        let mut inner = Layout::default();
        inner.add_type(values);
        self.dictionaries.append(&mut inner.dictionaries);
        self.values.append(&mut inner.values);
        self.values.push(inner);
    }

    fn add_type(&mut self, data_type: &DataType) {
        use DataType::*;
        self.nodes += 1;
        self.contents.push(contents(data_type));
        self.arrays.push(match data_type {
            Null | RunEndEncoded(..) => Buffers::Fixed(0),
            Struct(_) | FixedSizeList(..) => Buffers::Fixed(1),
            Union(_, UnionMode::Sparse) => Buffers::Fixed(1),
            Union(_, UnionMode::Dense) => Buffers::Fixed(2),
            Utf8 | LargeUtf8 | Binary | LargeBinary | ListView(_) | LargeListView(_) => Buffers::Fixed(3),
            Utf8View | BinaryView => Buffers::Views(2),
            // Validity, and values, indices or offsets.
            _ => Buffers::Fixed(2),
        });
        match data_type {
            List(child) | LargeList(child) | ListView(child) | LargeListView(child) | Map(child, _) => {
                self.add(child);
            }
            FixedSizeList(child, _) => self.add(child),
            Struct(children) => children.iter().for_each(|child| self.add(child)),
            Union(children, _) => children.iter().for_each(|(_, child)| self.add(child)),
            RunEndEncoded(ends, values) => {
                self.add(ends);
                self.add(values);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Fields;

    use super::*;

    #[test]
    fn counts_nodes_and_buffers_with_those_of_children() {
        let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)));
        let fields = Fields::from(vec![Field::new("a", words, true), Field::new("b", list, true)]);
        let layout = Layout::of(&Field::new("s", DataType::Struct(fields), true));
        assert_eq!(layout.nodes, 4);
        use Buffers::{Fixed, Views};
        assert_eq!(layout.arrays, [Fixed(1), Fixed(2), Fixed(2), Views(2)]);
        assert_eq!(layout.dictionaries.len(), 1);
    }
}
