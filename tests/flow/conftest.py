from tests.flow.opened import flow_database as flow_database
from tests.flow.opened import kept_databases as kept_databases
from tests.flow.opened import world as world
