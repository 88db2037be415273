//! Layout of a column: its nodes and buffers in each record batch (Arrow columnar format, version 1.5).

use arrow_schema::{DataType, Field};

/// Nodes and buffers of a column, with those of its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) nodes: usize,
    /// Buffers of each array, in order. Arrays of views have further ones, as many as the batch says.
    pub(crate) arrays: Vec<Buffers>,
    /// Identifiers of its dictionaries, those of children first.
    pub(crate) dictionaries: Vec<i64>,
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
    }

    fn add_type(&mut self, data_type: &DataType) {
        use DataType::*;
        self.nodes += 1;
        self.arrays.push(match data_type {
            Null | RunEndEncoded(..) => Buffers::Fixed(0),
            Struct(_) | FixedSizeList(..) => Buffers::Fixed(1),
            Union(_, arrow_schema::UnionMode::Sparse) => Buffers::Fixed(1),
            Union(_, arrow_schema::UnionMode::Dense) => Buffers::Fixed(2),
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
